#include "cpu/algorithm/epilogue.h"

#include <algorithm>

#include "cpu/vector_loops/vector_loops.h"

namespace warpconv {
namespace {

using Operation = program::ElementwiseStep::Operation;

// Comparisons are written so that NaN fails them all and falls through unchanged.
float clip(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

template <typename Function>
void apply(float* values, int64_t count, float bias, const float* residual, Function function) {
  if (residual == nullptr) {
    for (int64_t i = 0; i < count; ++i) values[i] = function(values[i] + bias);
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] = function(values[i] + bias + residual[i]);
  }
}

/** The widest loops that WARPCONV_ISA allows; a value that it does not take is reported where plans are made. */
const VectorLoops& loopsOfMachine() {
  static const VectorLoops& loops = []() -> const VectorLoops& {
    const Result<CpuInfo> cpu = usableCpu();
    return vectorLoops(cpu.isOk() ? cpu.value().isaLevel : Isa::portable);
  }();
  return loops;
}

/** In whole vectors, of which the last is filled up, because there may be but a few outputs. */
void applyLoop(float* values, int64_t count, float bias, const float* residual, Operation operation) {
  constexpr int64_t kBlock = 256;
  const VectorLoops& loops = loopsOfMachine();
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    alignas(64) float sums[kBlock];
    alignas(64) float results[kBlock];
    const int64_t size = std::min(kBlock, count - begin);
    const int64_t filled = (size + loops.lanes - 1) / loops.lanes * loops.lanes;
    const bool areSums = bias == 0.0f && residual == nullptr && filled == size;
    if (!areSums) {
      std::copy_n(values + begin, size, sums);
      std::fill(sums + size, sums + filled, 0.0f);
      apply(sums, size, bias, residual == nullptr ? nullptr : residual + begin, [](float x) { return x; });
    }
    loops.function(operation)(areSums ? values + begin : sums, nullptr, results, filled, 0.0f, 0.0f);
    std::copy_n(results, size, values + begin);
  }
}

}  // namespace

void finishOutputs(float* values, int64_t count, float bias, const float* residual, const Activation& activation) {
  const float first = activation.first;
  const float second = activation.second;
  switch (activation.kind) {
    case ActivationKind::none: return apply(values, count, bias, residual, [](float x) { return x; });
    case ActivationKind::relu: return apply(values, count, bias, residual, [](float x) { return x < 0.0f ? 0.0f : x; });
    case ActivationKind::leakyRelu:
      return apply(values, count, bias, residual, [first](float x) { return x < 0.0f ? first * x : x; });
    case ActivationKind::clip:
      return apply(values, count, bias, residual, [first, second](float x) { return clip(x, first, second); });
    case ActivationKind::sigmoid: return applyLoop(values, count, bias, residual, Operation::sigmoid);
    case ActivationKind::silu: return applyLoop(values, count, bias, residual, Operation::silu);
    case ActivationKind::hardSwish: return applyLoop(values, count, bias, residual, Operation::hardSwish);
    case ActivationKind::gelu: return applyLoop(values, count, bias, residual, Operation::gelu);
  }
}

}  // namespace warpconv
