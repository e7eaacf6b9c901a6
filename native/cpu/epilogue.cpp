#include "cpu/epilogue.h"

#include <cmath>

namespace warpconv {
namespace {

// Comparisons are written so that NaN fails them all and falls through unchanged.
float clip(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }
float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
float silu(float x) { return x / (1.0f + std::exp(-x)); }
// Divided first, because x times 6 may overflow.
float hardSwish(float x) { return x * (clip(x + 3.0f, 0.0f, 6.0f) / 6.0f); }

template <typename Function>
void apply(float* values, int64_t count, float bias, const float* residual, Function function) {
  if (residual == nullptr) {
    for (int64_t i = 0; i < count; ++i) values[i] = function(values[i] + bias);
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] = function(values[i] + bias + residual[i]);
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
    case ActivationKind::sigmoid: return apply(values, count, bias, residual, sigmoid);
    case ActivationKind::silu: return apply(values, count, bias, residual, silu);
    case ActivationKind::hardSwish: return apply(values, count, bias, residual, hardSwish);
  }
}

}  // namespace warpconv
