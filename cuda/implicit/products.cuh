#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::implicit {

/** Two elements of 16 bits as floats, and floats as two elements, rounded to the nearest, ties to even. */
struct Fp16 {
  static __device__ float2 decode(uint32_t pair) { return __half22float2(*reinterpret_cast<const __half2*>(&pair)); }
  static __device__ uint32_t encode(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  template <bool kAdd, int kCount>
  static __device__ void multiply(float (&sums)[kCount], uint64_t a, uint64_t b) {
    beginMultiplyFp16<kAdd>(sums, a, b);
  }
};

struct Bf16 {
  static __device__ float2 decode(uint32_t pair) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
  }
  static __device__ uint32_t encode(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  template <bool kAdd, int kCount>
  static __device__ void multiply(float (&sums)[kCount], uint64_t a, uint64_t b) {
    beginMultiplyBf16<kAdd>(sums, a, b);
  }
};

}  // namespace warpconv::cuda::implicit
