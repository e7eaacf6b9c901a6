#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpconv::cuda {

// Blocks of a thread-block cluster read each other's shared memory, from compute capability 9.0 on. Of one block the
// same functions are those of a block.

/**
 * A barrier of the `blocks` blocks of a cluster, before which all have written to shared memory what others then read.
 * Of shared memory alone: the barrier of cooperative groups also waits until what each thread has written to global
 * memory is there for the device to see, which took 0.4 us on an H200.
 */
__device__ inline void synchroniseCluster([[maybe_unused]] int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    asm volatile(
        "fence.release.sync_restrict::shared::cta.cluster;\n"
        "barrier.cluster.arrive.relaxed.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;\n"
        "fence.acquire.sync_restrict::shared::cluster.cluster;" ::
            : "memory");
    return;
  }
#endif
  __syncthreads();
}

/**
 * Such a barrier of several blocks whose threads have only read of each other since the last one, in two halves: it
 * does not wait until what they have stored elsewhere is there for all to see. Between its halves a thread reads
 * nothing of other blocks.
 */
__device__ inline void tellClusterRead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ inline void awaitCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}
__device__ inline void awaitClusterReads() {
  tellClusterRead();
  awaitCluster();
}

/** An address of shared memory, as block `rank` of the cluster has it. */
__device__ inline uint32_t addressIn(uint32_t shared, [[maybe_unused]] int rank) {
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(shared) : "r"(rank));
#endif
  return shared;
}

/**
 * A place in shared memory that each block of a cluster has. The compiler must not know that it is shared memory: it
 * would find the upper half of the address anew for each block and load, which takes a warp tens of cycles.
 */
class ClusterPlace {
 public:
  explicit __device__ ClusterPlace(const float* own) : own_(reinterpret_cast<uint64_t>(own)) {
    asm volatile("" : "+l"(own_));
  }

  /** `floats` further on, as block `rank` of the cluster has it. */
  __device__ const float* in([[maybe_unused]] int rank, int floats = 0) const {
    uint64_t place = own_ + 4 * floats;
#if __CUDA_ARCH__ >= 900
    asm("mapa.u64 %0, %0, %1;" : "+l"(place) : "r"(rank));
#endif
    return reinterpret_cast<const float*>(place);
  }

 private:
  uint64_t own_;
};

/**
 * `own`, as block `rank` of the cluster has it, for kernels that wait for what the others' memory gives them and not
 * for instructions: im2win's and pointwise's took up to 4 % longer by way of a ClusterPlace.
 */
__device__ inline const float* sharedOf(float* own, [[maybe_unused]] int blocks, [[maybe_unused]] int rank) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) return static_cast<const float*>(__cluster_map_shared_rank(own, rank));
#endif
  return own;
}

}  // namespace warpconv::cuda
