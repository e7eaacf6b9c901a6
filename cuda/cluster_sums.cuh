#pragma once

#include "cuda/async_copy.cuh"
#include "cuda/cluster.cuh"
#include "cuda/phase_barrier.cuh"
#include "cuda/staged_sums.cuh"

namespace warpconv::cuda {

/**
 * Brings sums together that every block of a cluster has staged as [part][row][kPitch]: each gets some rows of all, by
 * bulk copies into its own shared memory. Reading them there instead, from each other's memory, took 2 us of a kernel
 * of 10 on an H200, and the longer the more loads were under way. Of one block there is nothing to bring.
 */
template <int kRows, int kPitch, int kParts>
class ClusterSums {
 public:
  /** `barrier`: this block's, in shared memory. By all threads, some barrier before the first gather. */
  __device__ ClusterSums(int blocks, int rank, uint64_t* barrier)
      : blocks_(blocks), rank_(rank), rowsEach_((kRows + blocks - 1) / blocks), barrier_(sharedAddress(barrier)) {
    if (blocks_ > 1 && threadIdx.x == 0) makePhaseBarrier(barrier_, 1);
  }

  /**
   * Of all the threads that have staged, which have met at a barrier since; the n-th time with parity n % 2. `staged`
   * has clusterFloats of space. It and the result hold until `release`.
   */
  __device__ StagedRows gather(const float* staged, int parity) {
    if (blocks_ == 1) return {staged, kPitch, 0, kRows, kParts, kRows * kPitch};
    const float* const received = staged + kRows * kPitch * kParts;
    const int first = rank_ * rowsEach_;
    const int end = min(first + rowsEach_, kRows);
    if (threadIdx.x == 0) arriveExpecting(barrier_, blocks_ * kParts * max(end - first, 0) * kRowBytes);
    publishToCopies();
    synchroniseCluster();
    if (threadIdx.x < blocks_ * kParts) send(staged, received, threadIdx.x / kParts, threadIdx.x % kParts);
    waitForPhase(barrier_, parity);
    return {received - first * kPitch, kPitch, first, end, blocks_ * kParts, rowsEach_ * kPitch};
  }

  /** Nobody leaves or stages again while another block still copies. */
  __device__ void release() const {
    if (blocks_ > 1) awaitClusterCopies();
  }

 private:
  static constexpr int kRowBytes = kPitch * 4;
  static_assert(kRowBytes % 16 == 0);

  /** To the block `to` its rows of this block's `part`. */
  __device__ void send(const float* staged, const float* received, int to, int part) const {
    const int first = to * rowsEach_;
    const int rows = min(rowsEach_, kRows - first);
    if (rows <= 0) return;
    copyToBlock(to, sharedAddress(received + (rank_ * kParts + part) * rowsEach_ * kPitch),
                sharedAddress(staged + (part * kRows + first) * kPitch), rows * kRowBytes, barrier_);
  }

  int blocks_, rank_, rowsEach_;
  uint32_t barrier_;
};

}  // namespace warpconv::cuda
