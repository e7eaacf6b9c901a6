#include "cpu/operators/halves.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/odometer.h"
#include "typed/small_floats.h"

namespace warpconv::operators::halves {
namespace {

float readAs(FloatType type, const void* data, int64_t i) {
  switch (type) {
    case FloatType::float16: return typed::Float16::decode(static_cast<const uint16_t*>(data)[i]);
    case FloatType::bfloat16: return typed::BFloat16::decode(static_cast<const uint16_t*>(data)[i]);
    case FloatType::float32: break;
  }
  return static_cast<const float*>(data)[i];
}

void writeAs(FloatType type, float value, void* data, int64_t i) {
  switch (type) {
    case FloatType::float16:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(typed::Float16::encode(value));
      break;
    case FloatType::bfloat16:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(typed::BFloat16::encode(value));
      break;
    case FloatType::float32: static_cast<float*>(data)[i] = value; break;
  }
}

std::vector<int64_t> denseStrides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t axis = extents.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * extents[axis];
  return strides;
}

/** Calls body(i, offset) for position i of a box, in row-major order. */
template <typename Body>
void forEachPosition(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides, const Body& body) {
  const int64_t count = elementsOf(extents);
  Odometer<1> odometer(extents, {std::span<const int64_t>(strides)}, 0);
  for (int64_t i = 0; i < count; ++i, odometer.next()) body(i, odometer.offset(0));
}

/** Where element `pixel` of channel c of image n lies. */
int64_t placeOf(const TensorFormat& format, int64_t channels, int64_t area, int64_t n, int64_t c, int64_t pixel) {
  if (format.layout == Layout::nchw) return (n * channels + c) * area + pixel;
  return (n * area + pixel) * (format.pitch == 0 ? channels : format.pitch) + c;
}

void changeFormat(const FormatStep& x, const void* input, void* output) {
  for (int64_t n = 0; n < x.n; ++n) {
    for (int64_t c = 0; c < x.channels; ++c) {
      for (int64_t pixel = 0; pixel < x.area; ++pixel) {
        const float value = readAs(x.from.type, input, placeOf(x.from, x.channels, x.area, n, c, pixel));
        writeAs(x.to.type, value, output, placeOf(x.to, x.channels, x.area, n, c, pixel));
      }
    }
  }
}

std::vector<float> widened(FloatType type, const void* data, int64_t count) {
  std::vector<float> floats(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) floats[static_cast<size_t>(i)] = readAs(type, data, i);
  return floats;
}

void narrow(const std::vector<float>& floats, FloatType type, void* data) {
  for (size_t i = 0; i < floats.size(); ++i) writeAs(type, floats[i], data, static_cast<int64_t>(i));
}

}  // namespace

void elementwise(const ElementwiseStep& step, std::span<const void* const> operands, void* output,
                 const RunContext& context) {
  ElementwiseStep plain = step;
  plain.types.clear(), plain.outputStrides.clear();
  plain.outputType = FloatType::float32;
  const std::vector<int64_t> dense = denseStrides(step.extents);
  const auto count = static_cast<size_t>(elementsOf(step.extents));
  std::vector<std::vector<float>> floats(operands.size());
  std::vector<const float*> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const FloatType type = step.types.empty() ? FloatType::float32 : step.types[i];
    floats[i].resize(count);
    forEachPosition(step.extents, step.strides[i], [&](int64_t at, int64_t from) {
      floats[i][static_cast<size_t>(at)] = readAs(type, operands[i], from);
    });
    inputs.push_back(floats[i].data());
    plain.strides[i] = dense;
  }
  std::vector<float> result(count);
  operators::elementwise(plain, inputs, result.data(), context);
  forEachPosition(step.extents, step.outputStrides.empty() ? dense : step.outputStrides, [&](int64_t at, int64_t to) {
    writeAs(step.outputType, result[static_cast<size_t>(at)], output, to);
  });
}

void pool(const PoolStep& step, const void* input, void* output, const RunContext& context) {
  PoolStep plain = step;
  plain.inputFormat = plain.outputFormat = {};
  const int64_t n = step.planes / step.channels;
  std::vector<float> from(static_cast<size_t>(step.planes * step.h * step.w));
  std::vector<float> to(static_cast<size_t>(step.planes * step.p * step.q));
  changeFormat({n, step.channels, step.h * step.w, step.inputFormat, {}, {}, {}}, input, from.data());
  operators::pool(plain, from.data(), to.data(), context);
  changeFormat({n, step.channels, step.p * step.q, {}, step.outputFormat, {}, {}}, to.data(), output);
}

void reduce(const ReduceStep& step, const void* input, void* output, const RunContext& context) {
  ReduceStep plain = step;
  plain.type = FloatType::float32, plain.pitch = 0;
  std::vector<float> from(static_cast<size_t>(step.outer * step.reduced * step.inner));
  const TensorFormat dense{FloatType::float32, Layout::nhwc, 0};
  changeFormat({step.outer, step.inner, step.reduced, {step.type, Layout::nhwc, step.pitch}, dense, {}, {}}, input,
               from.data());
  operators::reduce(plain, from.data(), output, context);
}

void normalize(const NormalizeStep& step, const float* scale, const float* shift, const void* input, void* output,
               const RunContext& context) {
  const std::vector<float> from = widened(step.type, input, step.rows * step.count);
  std::vector<float> to(from.size());
  operators::normalize(step, scale, shift, from.data(), to.data(), context);
  narrow(to, step.type, output);
}

void interpolate(const InterpolateStep& step, const void* input, void* output, const RunContext& context) {
  const std::vector<float> from = widened(step.type, input, step.outer * step.axis * step.inner);
  std::vector<float> to(static_cast<size_t>(step.outer * step.count * step.inner));
  operators::interpolate(step, from.data(), to.data(), context);
  narrow(to, step.type, output);
}

void format(const FormatStep& step, const void* input, void* output) { changeFormat(step, input, output); }

}  // namespace warpconv::operators::halves
