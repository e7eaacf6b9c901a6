#pragma once

#include <cstdint>

namespace warpconv::cuda {

// A float32 as three numbers of BF16, of eight significant bits each and float32's own exponents: together they are
// the number, unless it is below 2^-110 or so, where the last lacks bits. Of the nine products of two such numbers the
// three smallest, some 2^-26 of the whole at most, are left out.

/** Thirds of two numbers, the first number's in the lower bits; the largest thirds first. */
struct Bf16Thirds {
  uint32_t two[3];
};

/** Where a number is NaN or infinite, or is rounded to infinity, its second third is NaN. */
__device__ inline Bf16Thirds splitBf16(float first, float second) {
  Bf16Thirds thirds;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(thirds.two[i]) : "f"(second), "f"(first));
    first -= __uint_as_float(thirds.two[i] << 16);
    second -= __uint_as_float(thirds.two[i] & 0xffff0000u);
  }
  return thirds;
}

}  // namespace warpconv::cuda
