#pragma once

#include <cstdint>

namespace warpconv::cuda::depthwise {

/** A word of global memory where `exists` is not 0, and zeros otherwise: by a predicate, in place of a branch. */
__device__ inline uint32_t loadWordOrZero(const char* from, unsigned exists) {
  uint32_t word;
  asm volatile("{ .reg .pred there; setp.ne.b32 there, %2, 0; mov.b32 %0, 0; @there ld.global.b32 %0, [%1]; }"
               : "=&r"(word)
               : "l"(__cvta_generic_to_global(from)), "r"(exists));
  return word;
}

/** Two weights. The load stays before waitForKernelsBefore, which the compiler would move an ordinary one behind. */
__device__ inline float2 loadWeights(const float* from) {
  float2 weights;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];"
               : "=f"(weights.x), "=f"(weights.y)
               : "l"(__cvta_generic_to_global(from)));
  return weights;
}

}  // namespace warpconv::cuda::depthwise
