#pragma once

#include <cstdint>

#include "problem/activation.h"

namespace warpconv::cuda {

/** What happens to an output once its sum is complete; null where there is no bias or residual. */
struct Epilogue {
  const float* bias;
  const float* residual;
  Activation activation;
};

/** Comparisons are written so that NaN fails them all and falls through unchanged, as on the CPU. */
__device__ inline float activate(float x, const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::none: return x;
    case ActivationKind::relu: return x < 0.0f ? 0.0f : x;
    case ActivationKind::leakyRelu: return x < 0.0f ? activation.first * x : x;
    case ActivationKind::clip:
      return x < activation.first ? activation.first : x > activation.second ? activation.second : x;
    case ActivationKind::sigmoid: return 1.0f / (1.0f + expf(-x));
    case ActivationKind::silu: return x / (1.0f + expf(-x));
    case ActivationKind::hardSwish: {
      const float y = x + 3.0f;
      // Divided first, because x times 6 may overflow.
      return x * ((y < 0.0f ? 0.0f : y > 6.0f ? 6.0f : y) / 6.0f);
    }
  }
  return x;
}

/** The output at `index` of the NCHW tensor, of channel k. */
__device__ inline float finish(const Epilogue& epilogue, float sum, int64_t k, int64_t index) {
  if (epilogue.bias != nullptr) sum += epilogue.bias[k];
  if (epilogue.residual != nullptr) sum += epilogue.residual[index];
  return activate(sum, epilogue.activation);
}

}  // namespace warpconv::cuda
