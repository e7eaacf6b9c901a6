#pragma once

namespace warpconv::cuda {

/** One, two or four adjacent floats, by one access. */
template <int kFloats>
__device__ inline void loadAdjacent(float* to, const float* from) {
  static_assert(kFloats == 1 || kFloats == 2 || kFloats == 4);
  if constexpr (kFloats == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else if constexpr (kFloats == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x, to[1] = two.y;
  } else {
    *to = *from;
  }
}

/**
 * The same of global memory where they exist, and zeros otherwise. Single ones by a predicate: the compiler branches
 * around each two or so. They stay behind waitForKernelsBefore.
 */
template <int kFloats>
__device__ inline void loadOrZero(float* to, const float* from, bool exist) {
  if constexpr (kFloats == 1) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %2, 0; mov.b32 %0, 0; @there ld.global.f32 %0, [%1]; }"
                 : "=&f"(*to)
                 : "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(exist)));
  } else {
#pragma unroll
    for (int i = 0; i < kFloats; ++i) to[i] = 0.0f;
    if (exist) loadAdjacent<kFloats>(to, from);
  }
}

/** The same the other way. */
template <int kFloats>
__device__ inline void storeAdjacent(float* to, const float* from) {
  static_assert(kFloats == 1 || kFloats == 2 || kFloats == 4);
  if constexpr (kFloats == 4) {
    *reinterpret_cast<float4*>(to) = {from[0], from[1], from[2], from[3]};
  } else if constexpr (kFloats == 2) {
    *reinterpret_cast<float2*>(to) = {from[0], from[1]};
  } else {
    *to = *from;
  }
}

}  // namespace warpconv::cuda
