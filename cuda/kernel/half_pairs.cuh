#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace warpconv::cuda {

/** Two neighbouring halves as a word, of a type: as floats, and rounded to the nearest, ties to even. */
struct Float16Pair {
  __device__ static float2 toFloats(uint32_t word) {
    const __half2 pair = *reinterpret_cast<const __half2*>(&word);
    return __half22float2(pair);
  }
  __device__ static uint32_t fromFloats(float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
};

struct BFloat16Pair {
  __device__ static float2 toFloats(uint32_t word) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
  __device__ static uint32_t fromFloats(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
};

}  // namespace warpconv::cuda
