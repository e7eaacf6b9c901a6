#pragma once

#include "cuda/epilogue/finite_check.cuh"
#include "cuda/im2win/gemm_tile.h"
#include "cuda/tensor_core/tensor_core.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::im2win {

/**
 * A warpgroup's sums: 64 output channels by 4 threadN windows, over its part of a tile's steps. Filters, which
 * roundForTf32 gave, are split in registers, on their way from shared memory. Row 16 w + g of a product is channel 16 w
 * + 2 g, and row 16 w + g + 8 the next, so that one load brings both. As with TensorSums, a product begins with zeros
 * and is added to the sums by ordinary additions: it covers sixteen steps, with which the error on positive data stays
 * below twice that of a sequential float32 sum over 64 steps; with 32 it was 2.4 times that.
 *
 * Two sets of operands take turns: while one's products run, the other loads. Their registers must be known when a
 * product begins, or it waits for the one before, so which set it is is part of the type.
 */
template <GemmTile kTile>
class WarpgroupSums {
  static constexpr int kColumns = 4 * kTile.threadN;
  static constexpr int kWarpgroupsM = kTile.blockM / 64;
  static constexpr int kWarpgroupsN = kTile.blockN / kColumns;
  static constexpr int kOwnK = kTile.blockK / kTile.partsK;
  static constexpr int kCount = kColumns / 2;
  static constexpr int kProductK = 16;
  static constexpr int kProducts = kOwnK / kProductK;
  static_assert(kWarpgroupsM * 64 == kTile.blockM && kWarpgroupsN * kColumns == kTile.blockN);
  static_assert(kOwnK * kTile.partsK == kTile.blockK && kProducts * kProductK == kOwnK);

 public:
  /** Tiles after which the sets of operands have the same turn again */
  static constexpr int kRound = kProducts % 2 == 0 ? 1 : 2;

  __device__ WarpgroupSums() {
    const int warpgroup = warpgroupIndex();
    part_ = warpgroup / (kWarpgroupsM * kWarpgroupsN);
    n_ = warpgroup / kWarpgroupsM % kWarpgroupsN * kColumns;
    m_ = warpgroup % kWarpgroupsM * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 * 2;
    t_ = threadIdx.x % 4;
  }

  /** Loads the operands of the first product of a round's tile kTurn, from the filters at `filters`. */
  template <int kTurn>
  __device__ void loadFirst(const float* filters) {
    load(operands_[kTurn * kProducts % 2], filters, 0);
  }

  /** Adds that tile's products with the split windows at `windows`; `loadNext` loads what comes after its last one. */
  template <int kTurn, typename LoadNext>
  __device__ void addTile(const float* filters, uint32_t windows, LoadNext&& loadNext) {
    constexpr int kStepBytes = kTile.blockN * 4;
    const uint64_t columns = columnsAt(windows + part_ * kOwnK * kStepBytes + n_ * 16, 4 * kStepBytes);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const int turn = kTurn * kProducts + i;
      begin(operands_[turn % 2], columns + (i * kProductK * kStepBytes >> 4));
      if (i + 1 < kProducts) {
        load(operands_[(turn + 1) % 2], filters, (i + 1) * kProductK);
      } else {
        loadNext();
      }
      waitForProducts(products_);
#pragma unroll
      for (int sum = 0; sum < kCount; ++sum) sums_[sum] += products_[sum];
    }
  }

  /** Into shared memory as [part][m][n]. Says whether all sums of this thread are finite. */
  __device__ bool write(float* shared) const {
    FiniteCheck finite;
    float* const own = shared + (part_ * kTile.blockM + m_) * kTile.outputPitch() + n_ + 2 * t_;
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      float* const at = own + i / 2 % 2 * kTile.outputPitch() + i / 4 * 8;
      *reinterpret_cast<float2*>(at) = {sums_[i], sums_[i + 1]};
      finite.add(sums_[i + 1]), finite.add(sums_[i]);
    }
    return finite.holds();
  }

 private:
  /** Of one product, of this thread */
  struct Operands {
    uint32_t high[kProductK / 8][4], low[kProductK / 8][4];
  };

  __device__ void load(Operands& operands, const float* filters, int firstStep) const {
    filters += (part_ * kOwnK + firstStep + t_) * kTile.pitchM() + m_;
#pragma unroll
    for (int k = 0; k < kProductK; k += 4) {
      const float2 two = *reinterpret_cast<const float2*>(filters + k * kTile.pitchM());
      uint32_t* const high = operands.high[k / 8] + k / 4 % 2 * 2;
      uint32_t* const low = operands.low[k / 8] + k / 4 % 2 * 2;
      high[0] = __float_as_uint(two.x), high[1] = __float_as_uint(two.y);
      low[0] = restOfTf32(two.x), low[1] = restOfTf32(two.y);
      // Here, while products run, and not when they are done.
      asm volatile("" : "+r"(low[0]), "+r"(low[1]));
    }
  }

  __device__ void begin(const Operands& operands, uint64_t highs) {
    constexpr int kHalfBytes = kTile.blockK * kTile.blockN * 4;
    const uint64_t lows = highs + (kHalfBytes >> 4);
    beginProducts();
#pragma unroll
    for (int k = 0; k < kProductK; k += 8) {
      const int at = k * kTile.blockN * 4 >> 4;
      beginMultiplyTf32(products_, operands.low[k / 8], highs + at, k > 0);
      beginMultiplyTf32(products_, operands.high[k / 8], lows + at, true);
      beginMultiplyTf32(products_, operands.high[k / 8], highs + at, true);
    }
    commitProducts();
  }

  int part_, m_, n_, t_;
  Operands operands_[2];
  float products_[kCount] = {};
  float sums_[kCount] = {};
};

}  // namespace warpconv::cuda::im2win
