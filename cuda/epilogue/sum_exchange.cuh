#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/epilogue/sum_exchange.h"
#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/cluster.cuh"
#include "cuda/kernel/phase_barrier.cuh"

namespace warpconv::cuda {

/**
 * Adds up the partial sums of the kBlocks blocks of a cluster, several. A block's kThreads threads have kPieces pieces
 * of kWidth sums each, of which those of one number are of the same outputs in all blocks. Block p mod kBlocks finishes
 * piece p of all threads: every other block sends it that piece from registers, and its thread of the same number adds
 * up what has come and its own, in the order of ranks. A block waits for nothing but that; where blocks read what
 * others have staged, they wait to stage, for a barrier of the cluster, and for each answer. A block's own part stays
 * in registers: sent as the others are, it took its share of some 10 bytes a cycle. From compute capability 9.0 on.
 */
template <int kBlocks, int kPieces, int kWidth, int kThreads>
class SumExchange {
 public:
  /**
   * Of block `rank`. `received`: exchangedBytes(), for what comes of all; its own part is not used. `barrier`: made for
   * one arrival, expect().
   */
  __device__ SumExchange(const float* received, uint32_t barrier, int rank)
      : received_(received), barrier_(barrier), rank_(rank) {}

  /** By one thread, before all of the cluster meet for the first time. */
  __device__ void expect() const { arriveExpecting(barrier_, (kPieces - kOwn) * kPieceBytes); }

  /** After they have met. `pieceOf(p)` is this thread's piece p. */
  __device__ void send(auto&& pieceOf) {
    const uint32_t own = sharedAddress(received_) + (rank_ * kThreads + threadIdx.x) * kWidth * 4;
#pragma unroll
    for (int rank = 0; rank < kBlocks; ++rank) {
      const uint32_t there = addressIn(own, rank), barrier = addressIn(barrier_, rank);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const AdjacentSums<kWidth> piece = pieceOf(i * kBlocks + rank);
        // Number by number, since pieces of a number that is not known lie in local memory.
#pragma unroll
        for (int j = 0; j < kWidth; ++j) own_[i].x[j] = rank == 0 || rank == rank_ ? piece.x[j] : own_[i].x[j];
        if (rank != rank_) storeThere(there + i * kBlocks * kPieceBytes, piece, barrier);
      }
    }
  }

  /**
   * Calls take(sums) for the pieces that this thread finishes, once all their parts are there: the block's rank is the
   * first one's number, and from each to the next there are kBlocks.
   */
  __device__ void receive(auto&& take) const {
    waitForPhase(barrier_, 0);
    // All loads are under way together: with one or two warps a scheduler, they are latency.
    AdjacentSums<kWidth> parts[kOwn][kBlocks], sums[kOwn]{};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const float* const at = received_ + ((i * kBlocks + block) * kThreads + threadIdx.x) * kWidth;
        parts[i][block] = block == rank_ ? own_[i] : *reinterpret_cast<const AdjacentSums<kWidth>*>(at);
      }
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) sums[i].add(parts[i][block].x);
    }
    take(sums);
  }

 private:
  static constexpr int kPieceBytes = 4 * kWidth * kThreads;
  /** Pieces that a thread finishes */
  static constexpr int kOwn = kPieces / kBlocks;
  static_assert(kBlocks > 1 && kOwn * kBlocks == kPieces);

  __device__ static void storeThere(uint32_t at, const AdjacentSums<kWidth>& sums, uint32_t barrier) {
    static_assert(kWidth == 2 || kWidth == 4);
    if constexpr (kWidth == 4) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
          "f"(sums.x[0]), "f"(sums.x[1]), "f"(sums.x[2]), "f"(sums.x[3]), "r"(barrier)
          : "memory");
    } else {
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(at),
                   "f"(sums.x[0]), "f"(sums.x[1]), "r"(barrier)
                   : "memory");
    }
  }

  const float* received_;
  uint32_t barrier_;
  int rank_;
  /** Of the pieces that this thread finishes, this block's part */
  AdjacentSums<kWidth> own_[kOwn];
};

}  // namespace warpconv::cuda
