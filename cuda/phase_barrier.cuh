#pragma once

#include <cstdint>

namespace warpconv::cuda {

// Barriers in shared memory on which some threads wait for what others have done, phase after phase, from compute
// capability 9.0 on. A phase ends once as many have arrived as the barrier was made for.

/** By one thread, before the others know of it. */
__device__ inline void makePhaseBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/** Once all asynchronous copies that this thread has begun so far are there. */
__device__ inline void arriveWithCopies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/** Until the phase of this parity, 0 for the first, has ended. Of a new barrier, that before the first has. */
__device__ inline void waitForPhase(uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again_%=;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace warpconv::cuda
