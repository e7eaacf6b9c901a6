#pragma once

#include "cuda/async_copy.cuh"
#include "cuda/cluster.cuh"
#include "cuda/epilogue.cuh"
#include "cuda/phase_barrier.cuh"
#include "cuda/sum_exchange.h"

namespace warpconv::cuda {

/**
 * Adds up the partial sums of the blocks of a cluster. A block's kThreads threads have kPieces pieces of kWidth sums
 * each, of which those of one number are of the same outputs in all blocks. Block p mod their count finishes piece p of
 * all threads: every block sends it that piece from registers, and its thread of the same number adds up what has come,
 * in the order of ranks. A block waits for nothing but that; where blocks read what others have staged, they wait to
 * stage, for a barrier of the cluster, and for each answer. From compute capability 9.0 on, and for up to eight blocks.
 */
template <int kPieces, int kWidth, int kThreads>
class SumExchange {
 public:
  /**
   * Of block `rank` of a cluster of `blocks`. `received`: exchangedBytes(), for what comes of all, or of this one to
   * itself. `barrier`: made for one arrival, expect().
   */
  __device__ SumExchange(const float* received, uint32_t barrier, int blocks, int rank)
      : received_(received), barrier_(barrier), blocks_(blocks), rank_(rank) {}

  /** By one thread of several blocks, before all of the cluster meet for the first time. */
  __device__ void expect() const {
    int pieces = 0;
    for (int piece = rank_; piece < kPieces; piece += blocks_) ++pieces;
    arriveExpecting(barrier_, pieces * blocks_ * kPieceBytes);
  }

  /** After they have met. `pieceOf(p)` is this thread's piece p. */
  __device__ void send(auto&& pieceOf) const {
    const uint32_t own = sharedAddress(received_) + (rank_ * kThreads + threadIdx.x) * kWidth * 4;
    if (blocks_ == 1) {
      forEachPiece(own, [&](int piece, uint32_t at, int) { storeHere(at, pieceOf(piece)); });
    } else {
      forEachPiece(own, [&](int piece, uint32_t at, int rank) {
        storeThere(addressIn(at, rank), pieceOf(piece), addressIn(barrier_, rank));
      });
    }
  }

  /** Calls take(p, sums) of each piece that this thread finishes, once all its parts are there. */
  __device__ void receive(auto&& take) const {
    // What comes of the same thread needs no barrier.
    if (blocks_ > 1) waitForPhase(barrier_, 0);
    // As many pieces together as make eight loads: with one or two warps a scheduler, instructions are latency.
    if (blocks_ <= 2) {
      receiveTogether<2, 4>(take);
    } else if (blocks_ <= 4) {
      receiveTogether<4, 2>(take);
    } else {
      receiveTogether<8, 1>(take);
    }
  }

 private:
  static constexpr int kPieceBytes = 4 * kWidth * kThreads;

  /** Calls send(p, at, rank) of each, `at` as the block `rank`, which finishes it, would have it. */
  __device__ void forEachPiece(uint32_t at, auto&& send) const {
    int rank = 0;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      send(piece, at, rank);
      if (++rank == blocks_) rank = 0, at += blocks_ * kPieceBytes;
    }
  }

  /** Of up to kBlocks blocks, kTogether pieces at a time. Adding is without branches, of which each takes longer. */
  template <int kBlocks, int kTogether>
  __device__ void receiveTogether(auto&& take) const {
    const float* from = received_ + threadIdx.x * kWidth;
    constexpr int kPart = kThreads * kWidth;
#pragma unroll 1
    for (int piece = rank_; piece < kPieces; piece += kTogether * blocks_) {
      AdjacentSums<kWidth> parts[kTogether][kBlocks];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int round = piece + i * blocks_ < kPieces ? i * blocks_ : 0;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const float* const at = from + (round + min(block, blocks_ - 1)) * kPart;
          parts[i][block] = *reinterpret_cast<const AdjacentSums<kWidth>*>(at);
        }
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        AdjacentSums<kWidth> sums{};
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
          for (int j = 0; j < kWidth; ++j) sums.x[j] += block < blocks_ ? parts[i][block].x[j] : 0.0f;
        }
        if (piece + i * blocks_ < kPieces) take(piece + i * blocks_, sums);
      }
      from += kTogether * blocks_ * kPart;
    }
  }

  __device__ static void storeHere(uint32_t at, const AdjacentSums<kWidth>& sums) {
    static_assert(kWidth == 2 || kWidth == 4);
    if constexpr (kWidth == 4) {
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(sums.x[0]), "f"(sums.x[1]),
                   "f"(sums.x[2]), "f"(sums.x[3])
                   : "memory");
    } else {
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(sums.x[0]), "f"(sums.x[1]) : "memory");
    }
  }
  __device__ static void storeThere(uint32_t at, const AdjacentSums<kWidth>& sums, uint32_t barrier) {
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
  int blocks_, rank_;
};

}  // namespace warpconv::cuda
