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

/**
 * x times the normal distribution, whose tail is e^(-x^2 / 2) by a polynomial of |x|: off by 2^-12 of it, and beyond
 * -5 by less than half of float16's least step.
 */
__device__ inline float approximateGelu(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * x * -0.72134752f));
  const float distance = fminf(fabsf(x), 5.0f);
  float tail = 5.79045354e-06f;
  tail = fmaf(tail, distance, -0.000145315877f);
  tail = fmaf(tail, distance, 0.00158311008f);
  tail = fmaf(tail, distance, -0.00992158335f);
  tail = fmaf(tail, distance, 0.0402589217f);
  tail = fmaf(tail, distance, -0.114168473f);
  tail = fmaf(tail, distance, 0.241292f);
  tail = fmaf(tail, distance, -0.39726451f);
  tail = fmaf(tail, distance, 0.499941647f);
  tail *= power;
  return x * (x < 0.0f ? tail : 1.0f - tail);
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
  } else if (kind == ActivationKind::gelu) {
#pragma unroll
    for (float& one : y) one = approximateGelu(one);
  } else {
#pragma unroll
    for (float& one : y) {
      const float sigmoid = approximateSigmoid(one);
      one = kind == ActivationKind::silu ? one * sigmoid : sigmoid;
    }
  }
}

}  // namespace warpconv::cuda
