#pragma once

#include <cstdint>

namespace warpconv::cuda {

// Barriers in shared memory on which some threads wait for what others have done, phase after phase, from compute
// capability 9.0 on. A phase ends once as many have arrived as the barrier was made for.

/** By one thread, before the others know of it. Before copies do, publishBarriers tells them. */
__device__ inline void makePhaseBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void publishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/** Counts as one, and the phase ends no earlier than `bytes` of copyBulk are there. */
__device__ inline void arriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/** Copies bytes, a multiple of 16, both ends aligned to as many, and then tells `barrier`; see arriveExpecting. */
__device__ inline void copyBulk(uint32_t shared, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
               : "memory");
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
