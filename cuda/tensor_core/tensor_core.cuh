#pragma once

#include <cstdint>

namespace warpconv::cuda {

/** Two numbers of TF32's 11 significant bits, the second of which makes up for what the first one lacks. */
struct Tf32Pair {
  uint32_t high, low;
};

/**
 * x = high + low, high rounded to nearest and low exact. Tensor cores read the upper 19 bits, which takes no more than
 * 2^-22 |x| from low; ties away from zero, and low of either sign, keep that from adding up. Where x is NaN or
 * infinite, low is NaN; where |x| rounds to infinity, both are infinite.
 */
__device__ inline Tf32Pair splitTf32(float x) {
  const uint32_t high = (__float_as_uint(x) + 0x1000) & 0xffffe000;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

/**
 * x rounded to 22 significant bits, to even. Of such a number tensor cores read the first 11, and restOfTf32 has the
 * others: two operands for an instruction less than splitTf32 takes, where numbers are rounded once and read often.
 */
__device__ inline float roundForTf32(float x) {
  const uint32_t bits = __float_as_uint(x);
  const uint32_t rounded = (bits + 1 + (bits >> 2 & 1)) & ~3u;
  if (isfinite(__uint_as_float(rounded))) return __uint_as_float(rounded);
  return isfinite(x) ? __uint_as_float(bits & ~3u) : x;
}

/** What tensor cores leave out when they read x. Where x is NaN or infinite, NaN. */
__device__ inline uint32_t restOfTf32(float x) {
  return __float_as_uint(x - __uint_as_float(__float_as_uint(x) & 0xffffe000));
}

/** The halves of a number that roundForTf32 gave, the first in a register of its own. */
__device__ inline Tf32Pair splitRounded(float x) { return {__float_as_uint(x) & 0xffffe000, restOfTf32(x)}; }

/**
 * sums += a * b, 16 x 8 by 8 x 8, from compute capability 8.0 on. With g = lane / 4 and t = lane % 4, a thread has
 * a(g, t), a(g + 8, t), a(g, t + 4), a(g + 8, t + 4); b(t, g), b(t + 4, g); and sums(g, 2 t), sums(g, 2 t + 1),
 * sums(g + 8, 2 t), sums(g + 8, 2 t + 1). Products are exact; sums are truncated, not rounded. Subnormal numbers count
 * (for both see M. Fasi et al.: Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021).
 */
__device__ inline void multiplyAddTf32(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/** The same, sums = a * b. */
__device__ inline void multiplyTf32(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
#endif
}

}  // namespace warpconv::cuda
