#pragma once

#include <cstdint>

namespace warpconv::cuda {

// Barriers in shared memory on which some threads wait for what others have done, phase after phase, from compute
// capability 9.0 on; nothing of it is compiled for earlier ones. A phase ends once as many have arrived as the barrier
// was made for.

/** By one thread, before the others know of it. */
__device__ inline void makePhaseBarrier([[maybe_unused]] uint32_t barrier, [[maybe_unused]] int arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#endif
}

__device__ inline void arrive([[maybe_unused]] uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/** Once all asynchronous copies that this thread has begun so far are there. */
__device__ inline void arriveWithCopies([[maybe_unused]] uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
#endif
}

/** Until the phase of this parity, 0 for the first, has ended. Of a new barrier, that before the first has. */
__device__ inline void waitForPhase([[maybe_unused]] uint32_t barrier, [[maybe_unused]] int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace warpconv::cuda
