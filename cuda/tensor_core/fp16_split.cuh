#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace warpconv::cuda {

// A float32 x as two numbers of FP16, of 11 significant bits each: scale * x = high + low / kLowScale, where `scale` is
// a power of two that many elements share. Tensor cores multiply FP16 twice as fast as TF32, and the product of two
// such numbers is high * high + (low * high + high * low) / kLowScale, whose two terms take a sum each: added up
// together, what is small beside the largest element would lose its low bits to FP16's smallest number, 2^-24.

/** What low halves are multiplied by, so that they are of the size of high ones. */
inline constexpr float kLowScale = 2048;

/** The exponents of a float, as its bits have them */
inline constexpr uint32_t kFloatExponentShift = 23;

/**
 * The power of two that brings numbers of up to `most` below 2^15, and `most` to 2^14 or more unless it is below
 * 2^-101. Infinity counts as a number of its exponent would.
 */
__device__ inline float scaleFor(float most) {
  constexpr uint32_t kLargest = 127 + 115;
  const uint32_t exponent = __float_as_uint(most) >> kFloatExponentShift;
  return __uint_as_float(min(127 + 14 + 127 - exponent, kLargest) << kFloatExponentShift);
}

/** Of a power of two that scaleFor gave. */
__device__ inline float inverseOf(float scale) {
  return __uint_as_float(((2 * 127) << kFloatExponentShift) - __float_as_uint(scale));
}

/** Halves of two numbers, the first in the lower bits. */
struct Fp16Pairs {
  uint32_t high, low;
};

/**
 * Of numbers below 2^15 / scale. Both halves are rounded to nearest: what is left out is no more than 2^-23 |x| or
 * 2^-36 / scale. Where x is NaN or infinite, low is NaN.
 */
__device__ inline Fp16Pairs splitFp16(float first, float second, float scale) {
  const __half2 high = __floats2half2_rn(first * scale, second * scale);
  const float2 taken = __half22float2(high);
  const __half2 low = __floats2half2_rn(fmaf(taken.x, -kLowScale, first * (scale * kLowScale)),
                                        fmaf(taken.y, -kLowScale, second * (scale * kLowScale)));
  return {reinterpret_cast<const uint32_t&>(high), reinterpret_cast<const uint32_t&>(low)};
}

/**
 * Whether one of these but zero is so much smaller than the largest, which gave the scale, that its halves lack bits:
 * they are off by 2^-36 / scale at most, which is less than 2^-19 of other numbers. Of random ones one in 10^9 is.
 */
template <int kCount>
__device__ inline bool lacksBits(const float (&values)[kCount], float scale) {
  constexpr float kLeast = 1.0f / (1 << 17);
  uint32_t least = ~uint32_t{0};
#pragma unroll
  for (int i = 0; i < kCount; ++i) least = min(least, (__float_as_uint(values[i]) << 1) - 1);
  // NaN where there is none but zeros
  return __uint_as_float(least >> 1) * scale < kLeast;
}

/** What high halves are stored as where bits are lacking: sums of which they are part are then made again. */
inline constexpr uint32_t kTwoNaNs = 0x7fff7fff;

__device__ inline float halfOf(uint32_t two, int which) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(two >> 16 * which)));
}

/** What a pair's first or second number stands for, of which `inverse` is the scale's. */
__device__ inline float joinFp16(const Fp16Pairs& pairs, int which, float inverse) {
  const float high = halfOf(pairs.high, which);
  return (isfinite(high) ? fmaf(halfOf(pairs.low, which), 1 / kLowScale, high) : high) * inverse;
}

}  // namespace warpconv::cuda
