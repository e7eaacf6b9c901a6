#pragma once

namespace warpconv::cuda {

// Barriers of a block's first kThreads threads, whole warps, where the others have left.

template <int kThreads>
__device__ inline void synchroniseFirst() {
  asm volatile("barrier.cta.sync.aligned 1, %0;" ::"n"(kThreads) : "memory");
}

/** The same, which says whether it holds for any of them. */
template <int kThreads>
__device__ inline bool synchroniseFirstAny(bool holds) {
  int any;
  asm volatile(
      "{ .reg .pred holds, any; setp.ne.b32 holds, %1, 0; barrier.cta.red.or.pred.aligned any, 1, %2, holds; "
      "selp.b32 %0, 1, 0, any; }"
      : "=r"(any)
      : "r"(static_cast<int>(holds)), "n"(kThreads)
      : "memory");
  return any != 0;
}

}  // namespace warpconv::cuda
