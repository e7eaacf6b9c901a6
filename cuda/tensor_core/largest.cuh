#pragma once

namespace warpconv::cuda {

/**
 * The largest of what kThreads threads have, none of which is negative; NaN does not count. `largest`: aligned space
 * for a number of each of their warps, that none reads of any more. `thread`: of kThreads. synchronise() is a barrier
 * of all of them.
 */
template <int kThreads>
__device__ inline float largestOfThreads(float own, float* largest, auto thread, auto&& synchronise) {
  constexpr int kWarps = kThreads / 32;
  const float ofWarp = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(own)));
  if (thread % 32 == 0) largest[thread / 32] = ofWarp;
  synchronise();
  float most = 0.0f;
#pragma unroll
  for (int warp = 0; warp < kWarps; warp += 4) {
    const float4 four = *reinterpret_cast<const float4*>(largest + warp);
    most = fmaxf(most, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
  }
  return most;
}

}  // namespace warpconv::cuda
