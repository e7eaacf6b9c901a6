#pragma once

#include "cuda/bf16_split.cuh"
#include "cuda/pointwise/row_outputs.cuh"
#include "cuda/pointwise/tiles.h"
#include "cuda/warpgroup.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A warpgroup's sums: pixels by filters. Tensor cores cut off what they add up, so that small products come first: what
 * is cut off of them does not count, and then there is one cut for each step's products of largest thirds.
 */
template <Bf16RowsTile kTile>
class Bf16RowSums {
 public:
  /** Makes the sums of all channels. Filters lie at that address of shared memory. */
  __device__ void make(uint32_t filters, const float (&pixels)[kTile.chunkSteps][4][2]) {
    uint32_t rows[kTile.chunkSteps][3][4];
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Bf16Thirds thirds = splitBf16(pixels[step][i / 2 * 2][i % 2], pixels[step][i / 2 * 2 + 1][i % 2]);
#pragma unroll
        for (int third = 0; third < 3; ++third) rows[step][third][i] = thirds.two[third];
      }
    }
    const uint64_t b = columnsAt(filters, kLayout.planeBytes());
    beginProducts();
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
      if (step == 0) {
        beginMultiplyBf16<false>(sums_, rows[step][2], b + at(step, 0));
      } else {
        beginMultiplyBf16<true>(sums_, rows[step][2], b + at(step, 0));
      }
      beginMultiplyBf16<true>(sums_, rows[step][1], b + at(step, 1));
      beginMultiplyBf16<true>(sums_, rows[step][0], b + at(step, 2));
    }
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
      beginMultiplyBf16<true>(sums_, rows[step][1], b + at(step, 0));
      beginMultiplyBf16<true>(sums_, rows[step][0], b + at(step, 1));
    }
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
      beginMultiplyBf16<true>(sums_, rows[step][0], b + at(step, 0));
    }
    commitProducts();
    waitForProducts(sums_);
  }

  __device__ AdjacentSums<2> piece(int p) const { return rowPiece(sums_, p); }

 private:
  static constexpr HalvesLayout kLayout = kTile.halves();

  /** Of a step's filters, their thirds of that number, as descriptors have it */
  static constexpr __device__ uint32_t at(int step, int third) {
    return (step * kLayout.stepBytes() + third * kLayout.lowBytes()) >> 4;
  }

  float sums_[kTile.filters / 2];
};

}  // namespace warpconv::cuda::pointwise
