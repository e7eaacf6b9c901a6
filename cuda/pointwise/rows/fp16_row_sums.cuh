#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/pointwise/rows/fp16_tile.h"
#include "cuda/pointwise/rows/row_pixels.cuh"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A warpgroup's sums: pixels by filters. Tensor cores cut off what they add up: the products of a chunk, of four steps
 * at most, are a chain, and chains are added to the sums by ordinary additions, which take the pixels' scales out.
 */
template <RowsTile kTile>
class RowSums {
  static constexpr HalvesLayout kHalves = kTile.halves();
  static_assert(kTile.chunkSteps <= 4);

 public:
  /** Adds a chunk, whose filters lie at that address of shared memory. */
  __device__ void add(uint32_t filters, const RowOperand<kTile>& pixels) {
    const uint64_t b = columnsAt(filters, kHalves.planeBytes());
    float high[kHighCount], cross[kCount];
    beginProducts();
    addStep<false>(high, cross, pixels, 0, b);
#pragma unroll
    for (int step = 1; step < kTile.chunkSteps; ++step) addStep<true>(high, cross, pixels, step, b);
    commitProducts();
    waitForProducts(high);
    waitForProducts(cross);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float small = kHalves.isPaired ? cross[i] + high[kHighCount - kCount + i] : cross[i];
      sums_[i] = fmaf(fmaf(small, 1 / kLowScale, high[i]), pixels.inverses[i % 4 / 2], sums_[i]);
    }
  }

  __device__ AdjacentSums<2> piece(int p) const { return rowPiece(sums_, p); }

 private:
  static constexpr int kCount = kTile.filters / 2;
  /** With those of high pixels and low filters behind them, where these are paired */
  static constexpr int kHighCount = kHalves.isPaired ? 2 * kCount : kCount;

  template <bool kAdd>
  static __device__ void addStep(float (&high)[kHighCount], float (&cross)[kCount], const RowOperand<kTile>& pixels,
                                 int step, uint64_t b) {
    // As descriptors have them
    const uint64_t at = b + step * (kHalves.stepBytes() >> 4);
    beginMultiplyFp16<kAdd>(high, pixels.high[step], at);
    beginMultiplyFp16<kAdd>(cross, pixels.low[step], at);
    if constexpr (!kHalves.isPaired) beginMultiplyFp16<true>(cross, pixels.high[step], at + (kHalves.lowBytes() >> 4));
  }

  float sums_[kCount] = {};
};

}  // namespace warpconv::cuda::pointwise
