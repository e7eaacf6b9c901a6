#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpconv::cuda {

// Blocks of a thread-block cluster can write to each other's shared memory, from compute capability 9.0 on. Before that
// nothing launches clusters, and nothing of this is compiled.

/** A barrier of the blocks of a cluster; what was stored in shared memory before can be read after it. */
__device__ inline void synchroniseCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/** A barrier after which no copies between the blocks are under way that this thread has waited for. */
__device__ inline void awaitClusterCopies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/** Makes what this thread has stored in shared memory visible to bulk copies that begin after the next barrier. */
__device__ inline void publishToCopies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/**
 * Begins to copy from this block's shared memory to that of the cluster's block `rank`, at `to` as it is there; the
 * bytes, a multiple of 16, arrive at its `barrier`.
 */
__device__ inline void copyToBlock([[maybe_unused]] int rank, [[maybe_unused]] uint32_t to,
                                   [[maybe_unused]] uint32_t from, [[maybe_unused]] int bytes,
                                   [[maybe_unused]] uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 to, barrier;\n"
      "mapa.shared::cluster.u32 to, %0, %4;\n"
      "mapa.shared::cluster.u32 barrier, %3, %4;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%1], %2, [barrier];\n"
      "}" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier), "r"(rank)
      : "memory");
#endif
}

}  // namespace warpconv::cuda
