#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/epilogue/half_activation.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::implicit {

/**
 * Types of elements. Words of 4 bytes are decoded to floats, and floats encoded, halves to the nearest, ties to even.
 * Activations are as exact as the type. A product takes 32 bytes of each row.
 */
struct Fp16 {
  using Bits = uint16_t;

  static __device__ void decode(uint32_t word, float (&values)[2]) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word));
    values[0] = pair.x, values[1] = pair.y;
  }
  static __device__ uint32_t encode(const float* values) {
    const __half2 pair = __floats2half2_rn(values[0], values[1]);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  template <int kCount>
  static __device__ void activate(float (&values)[kCount], const BoundedActivation& activation) {
    activateHalves(values, activation);
  }
  template <bool kAdd, int kCount>
  static __device__ void multiply(float (&sums)[kCount], uint64_t a, uint64_t b) {
    beginMultiplyFp16<kAdd>(sums, a, b);
  }
};

struct Bf16 {
  using Bits = uint16_t;

  static __device__ void decode(uint32_t word, float (&values)[2]) {
    const float2 pair = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
    values[0] = pair.x, values[1] = pair.y;
  }
  static __device__ uint32_t encode(const float* values) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values[0], values[1]);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  template <int kCount>
  static __device__ void activate(float (&values)[kCount], const BoundedActivation& activation) {
    activateHalves(values, activation);
  }
  template <bool kAdd, int kCount>
  static __device__ void multiply(float (&sums)[kCount], uint64_t a, uint64_t b) {
    beginMultiplyBf16<kAdd>(sums, a, b);
  }
};

/** Products of TF32. Tensors are of float32: the copy engine rounds what products read, and nothing else. */
struct Tf32 {
  using Bits = uint32_t;

  static __device__ void decode(uint32_t word, float (&values)[1]) { values[0] = __uint_as_float(word); }
  static __device__ uint32_t encode(const float* values) { return __float_as_uint(values[0]); }
  template <int kCount>
  static __device__ void activate(float (&values)[kCount], const BoundedActivation& activation) {
    if (isClamp(activation)) {
#pragma unroll
      for (float& value : values) value = clamp(value, activation);
    } else {
#pragma unroll
      for (float& value : values) value = warpconv::cuda::activate(value, activation);
    }
  }
  template <bool kAdd, int kCount>
  static __device__ void multiply(float (&sums)[kCount], uint64_t a, uint64_t b) {
    beginMultiplyTf32<kAdd>(sums, a, b);
  }
};

}  // namespace warpconv::cuda::implicit
