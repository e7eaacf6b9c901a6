#pragma once

#include "cuda/pointwise/rows/bf16_tile.h"
#include "cuda/pointwise/rows/row_outputs.cuh"
#include "cuda/tensor_core/bf16_split.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A warpgroup's sums: pixels by filters. Tensor cores cut off what they add up, so that small products come first: what
 * is cut off of them does not count, and then there is one cut for each step's products of largest thirds. Sums of a
 * group of filters are there, and can be stored, while those of the next are made.
 */
template <Bf16RowsTile kTile>
class Bf16RowSums {
 public:
  static constexpr int kGroups = kTile.filters / Bf16RowsTile::kGroupFilters;
  static constexpr int kGroupPieces = kTile.pieces() / kGroups;

  /** Begins the sums of all channels. Filters lie at that address of shared memory. */
  __device__ void begin(uint32_t filters, const float (&pixels)[kTile.chunkSteps][4][2]) {
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Bf16Thirds thirds = splitBf16(pixels[step][i / 2 * 2][i % 2], pixels[step][i / 2 * 2 + 1][i % 2]);
#pragma unroll
        for (int third = 0; third < 3; ++third) rows_[step][third][i] = thirds.two[third];
      }
    }
    beginProducts();
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      beginGroup(sums_[group], columnsAt(filters + group * Bf16RowsTile::kGroupFilters * 16, kLayout.planeBytes()));
      commitProducts();
    }
  }

  /** Until the sums of that group are there. */
  template <int kGroup>
  __device__ void await() {
    waitForProducts<kGroups - 1 - kGroup>(sums_[kGroup]);
  }

  __device__ AdjacentSums<2> piece(int p) const { return rowPiece(sums_[p / kGroupPieces], p % kGroupPieces); }

 private:
  static constexpr HalvesLayout kLayout = kTile.halves();
  using Sums = float[Bf16RowsTile::kGroupFilters / 2];

  /** `b`: of the group's filters */
  __device__ void beginGroup(Sums& sums, uint64_t b) {
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
      if (step == 0) {
        beginMultiplyBf16<false>(sums, rows_[step][2], b + at(step, 0));
      } else {
        beginMultiplyBf16<true>(sums, rows_[step][2], b + at(step, 0));
      }
      beginMultiplyBf16<true>(sums, rows_[step][1], b + at(step, 1));
      beginMultiplyBf16<true>(sums, rows_[step][0], b + at(step, 2));
    }
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
      beginMultiplyBf16<true>(sums, rows_[step][1], b + at(step, 0));
      beginMultiplyBf16<true>(sums, rows_[step][0], b + at(step, 1));
    }
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps; ++step) {
      beginMultiplyBf16<true>(sums, rows_[step][0], b + at(step, 0));
    }
  }

  /** Of a step's filters, their thirds of that number, as descriptors have it */
  static constexpr __device__ uint32_t at(int step, int third) {
    return (step * kLayout.stepBytes() + third * kLayout.lowBytes()) >> 4;
  }

  uint32_t rows_[kTile.chunkSteps][3][4];
  Sums sums_[kGroups];
};

}  // namespace warpconv::cuda::pointwise
