#pragma once

#include <cstdint>

#include "cuda/epilogue/bounded_activation.h"

namespace warpconv::cuda {

/** What happens to an output once its sum is complete; null where there is no bias or residual. */
struct Epilogue {
  const float* bias;
  const float* residual;
  BoundedActivation activation;
};

/** NaN passes, as on the CPU. */
__device__ inline float clamp(float x, const BoundedActivation& bounds) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;\nmin.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(bounds.first), "f"(bounds.second));
  return x;
#else
  return x < bounds.first ? bounds.first : x > bounds.second ? bounds.second : x;
#endif
}

__host__ __device__ inline bool isClamp(const BoundedActivation& activation) {
  return activation.kind == ActivationKind::none || activation.kind == ActivationKind::relu ||
         activation.kind == ActivationKind::clip;
}

/**
 * Not by a switch: its indirect branches took a block of 128 threads with 64 x 64 outputs 3.5 us on an H200, and
 * nothing else can run meanwhile where a multiprocessor has one block.
 */
__device__ inline float activate(float x, const BoundedActivation& activation) {
  if (isClamp(activation)) return clamp(x, activation);
  if (activation.kind == ActivationKind::leakyRelu) return x < 0.0f ? activation.first * x : x;
  if (activation.kind == ActivationKind::sigmoid || activation.kind == ActivationKind::silu) {
    // By a power that does not overflow: e^89 is no float, though e^-89 is one.
    const float power = expf(-fabsf(x));
    const float sigmoid = (x < 0.0f ? power : 1.0f) / (1.0f + power);
    return activation.kind == ActivationKind::silu ? x * sigmoid : sigmoid;
  }
  if (activation.kind == ActivationKind::gelu) return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  const float y = x + 3.0f;
  // hardSwish, divided first because x times 6 may overflow.
  return x * ((y < 0.0f ? 0.0f : y > 6.0f ? 6.0f : y) / 6.0f);
}

/** The output at `index` of the NCHW tensor, of channel k. */
__device__ inline float finish(const Epilogue& epilogue, float sum, int64_t k, int64_t index) {
  if (epilogue.bias != nullptr) sum += epilogue.bias[k];
  if (epilogue.residual != nullptr) sum += epilogue.residual[index];
  return activate(sum, epilogue.activation);
}

/** Of output channel k. It is the plan's own, which no kernel before can be writing: its load may come early. */
__device__ inline float biasOf(const Epilogue& epilogue, int64_t k) {
  return epilogue.bias == nullptr ? 0.0f : __ldg(epilogue.bias + k);
}

/**
 * Whether outputs take no more than a bias and bounds, which is what most do. A loop over outputs is worth having
 * twice, with finishBounded and with all else: where a scheduler has one or two warps, instructions are latency. While
 * each output asked for a residual, 64 to 128 channels of 112 x 112 by 3 x 3 took 32 us of an H200, and take 23.5
 * since.
 */
__host__ __device__ inline bool isBounded(const Epilogue& epilogue) {
  return epilogue.residual == nullptr && isClamp(epilogue.activation);
}

/** Sums that begin with the bias are outputs already where nothing else is to be done. */
__device__ inline bool isFinished(const Epilogue& epilogue) {
  return epilogue.residual == nullptr && epilogue.activation.kind == ActivationKind::none;
}

/** Whether four floats from there on, or none where it is null, can be moved together. */
inline bool isQuadAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace warpconv::cuda
