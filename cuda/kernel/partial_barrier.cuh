#pragma once

namespace warpconv::cuda {

// Barriers of some of a block's threads, whole warps: its first kThreads, and kThreads that share a barrier of their
// own.

template <int kThreads>
__device__ inline void synchroniseFirst() {
  asm volatile("barrier.cta.sync.aligned 1, %0;" ::"n"(kThreads) : "memory");
}

/** `barrier`: from 2 to 15. */
template <int kThreads>
__device__ inline void synchroniseSome(int barrier) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

/** Of the first, which says whether it holds for any of them. */
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
