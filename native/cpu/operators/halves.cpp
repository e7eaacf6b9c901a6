#include "cpu/operators/halves.h"

#include <cstdint>
#include <vector>

#include "cpu/algorithm/epilogue.h"
#include "cpu/formats/formats.h"
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

std::vector<float> floatsOf(int64_t count) { return std::vector<float>(static_cast<size_t>(count)); }

/** Of elements that follow each other. */
std::vector<float> widened(FloatType type, const void* data, int64_t count, const RunContext& context) {
  std::vector<float> floats = floatsOf(count);
  toPlain({type, Layout::nhwc, 0}, 1, count, 1, data, floats.data(), context);
  return floats;
}

void narrow(const std::vector<float>& floats, FloatType type, void* data, const RunContext& context) {
  fromPlain({type, Layout::nhwc, 0}, 1, static_cast<int64_t>(floats.size()), 1, floats.data(), data, context);
}

/** The products of a vector with rows of a matrix, row i beginning at element `apart` * i, and what follows them. */
std::vector<float> dense(int64_t rows, const float* matrix, int64_t apart, int64_t step,
                         const std::vector<float>& vector, const float* bias, const Activation& activation) {
  std::vector<float> result = floatsOf(rows);
  for (int64_t i = 0; i < rows; ++i) {
    double sum = bias == nullptr ? 0.0 : double{bias[i]};
    for (size_t j = 0; j < vector.size(); ++j) {
      sum += double{matrix[i * apart + static_cast<int64_t>(j) * step]} * double{vector[j]};
    }
    result[static_cast<size_t>(i)] = static_cast<float>(sum);
  }
  finishOutputs(result.data(), rows, 0.0f, nullptr, activation);
  return result;
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
  const int64_t n = step.planes / step.channels;
  std::vector<float> from = floatsOf(step.planes * step.h * step.w), to = floatsOf(step.planes * step.p * step.q);
  toPlain(step.inputFormat, n, step.channels, step.h * step.w, input, from.data(), context);
  operators::pool(step, from.data(), to.data(), context);
  fromPlain(step.outputFormat, n, step.channels, step.p * step.q, to.data(), output, context);
}

void reduce(const ReduceStep& step, const void* input, void* output, const RunContext& context) {
  std::vector<float> from = floatsOf(step.outer * step.reduced * step.inner);
  toPlain({step.type, Layout::nhwc, step.pitch}, step.outer, step.inner, step.reduced, input, from.data(), context);
  ReduceStep plain = step;
  plain.outer = step.outer * step.inner, plain.inner = 1;
  operators::reduce(plain, from.data(), output, context);
}

void normalize(const NormalizeStep& step, const float* scale, const float* shift, const void* input, void* output,
               const RunContext& context) {
  const std::vector<float> from = widened(step.type, input, step.rows * step.count, context);
  std::vector<float> to(from.size());
  operators::normalize(step, scale, shift, from.data(), to.data(), context);
  narrow(to, step.type, output, context);
}

void squeezeExcite(const SqueezeExciteStep& step, const void* input, const float* hiddenWeight, const float* hiddenBias,
                   const float* gateWeight, const float* gateBias, void* output, const RunContext& context) {
  const int64_t c = step.channels, hidden = step.hidden, area = step.area;
  std::vector<float> maps = floatsOf(step.n * c * area);
  toPlain({step.type, Layout::nhwc, step.inputPitch}, step.n, c, area, input, maps.data(), context);
  ReduceStep mean;
  mean.mode = ReduceStep::Mode::mean, mean.outer = c, mean.reduced = area;
  std::vector<float> means = floatsOf(c);
  for (int64_t image = 0; image < step.n; ++image) {
    float* const ofImage = maps.data() + image * c * area;
    operators::reduce(mean, ofImage, means.data(), context);
    const std::vector<float> squeezed = dense(hidden, hiddenWeight, c, 1, means, hiddenBias, step.hiddenActivation);
    const std::vector<float> gates = dense(c, gateWeight, 1, c, squeezed, gateBias, step.gateActivation);
    for (int64_t i = 0; i < c * area; ++i) ofImage[i] *= gates[static_cast<size_t>(i / area)];
  }
  fromPlain({step.type, Layout::nhwc, step.outputPitch}, step.n, c, area, maps.data(), output, context);
}

void interpolate(const InterpolateStep& step, const void* input, void* output, const RunContext& context) {
  const std::vector<float> from = widened(step.type, input, step.outer * step.axis * step.inner, context);
  std::vector<float> to = floatsOf(step.outer * step.count * step.inner);
  operators::interpolate(step, from.data(), to.data(), context);
  narrow(to, step.type, output, context);
}

void format(const FormatStep& step, const void* input, void* output, const RunContext& context) {
  std::vector<float> plain = floatsOf(step.n * step.channels * step.area);
  toPlain(step.from, step.n, step.channels, step.area, input, plain.data(), context);
  fromPlain(step.to, step.n, step.channels, step.area, plain.data(), output, context);
}

}  // namespace warpconv::operators::halves
