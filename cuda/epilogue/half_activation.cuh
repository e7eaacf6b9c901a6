#pragma once

#include "cuda/epilogue/epilogue.cuh"

namespace warpconv::cuda {

/**
 * 1 / (1 + e^-x) by the hardware's approximations, which are off by some 2^-20 of it: a half keeps 2^-11 at most. Below
 * -88, where it is less than the least of floats that are not subnormal, it is zero.
 */
__device__ inline float approximateSigmoid(float x) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return inverse;
}

/** Activates outputs that are rounded to halves next. The kind is looked at once for all of them. */
template <int kCount>
__device__ inline void activateHalves(float (&y)[kCount], const BoundedActivation& activation) {
  const ActivationKind kind = activation.kind;
  if (kind == ActivationKind::none) return;
  if (isClamp(activation)) {
#pragma unroll
    for (float& one : y) one = clamp(one, activation);
  } else if (kind == ActivationKind::leakyRelu) {
#pragma unroll
    for (float& one : y) one = one < 0.0f ? activation.first * one : one;
  } else if (kind == ActivationKind::hardSwish) {
#pragma unroll
    for (float& one : y) {
      const float shifted = one + 3.0f;
      one *= (shifted < 0.0f ? 0.0f : shifted > 6.0f ? 6.0f : shifted) * (1.0f / 6.0f);
    }
  } else {
#pragma unroll
    for (float& one : y) {
      const float sigmoid = approximateSigmoid(one);
      one = kind == ActivationKind::silu ? one * sigmoid : sigmoid;
    }
  }
}

}  // namespace warpconv::cuda
