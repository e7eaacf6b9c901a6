#pragma once

#include <utility>

#include "cuda/pointwise/rows/row_outputs.cuh"
#include "cuda/pointwise/rows/tf32_tile.h"
#include "cuda/tensor_core/tensor_core.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A warpgroup's sums: pixels by filters. Tensor cores cut off what they add up: the products of high halves of a chunk
 * are a chain, with small ones by low filters beside it, and chains are added to the sums by ordinary additions, each
 * while the next one runs. Products of low pixels, small as well, are a sum of their own.
 */
template <Tf32RowsTile kTile>
class Tf32RowSums {
  static constexpr HalvesLayout kHalves = kTile.halves();
  static_assert(kHalves.isPaired && kTile.mostChunks > 1);

 public:
  /** Adds up `chunks` of them: `pixelsOf(i)` are those of chunk i. Filters lie at that address of shared memory. */
  __device__ void add(uint32_t filters, int chunks, auto&& pixelsOf) {
    const uint64_t b = columnsAt(filters, kHalves.planeBytes());
    begin<0>(b, pixelsOf(0));
    [&]<int... i>(std::integer_sequence<int, i...>) { (addBeside<i + 1>(b, i + 1 < chunks, pixelsOf(i + 1)), ...); }
    (std::make_integer_sequence<int, kTile.mostChunks - 1>());
    if (chunks % 2 == 1) {
      finish<0, 0>();
    } else {
      finish<1, 0>();
    }
    waitForProducts(cross_);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums_[i] += cross_[i];
  }

  __device__ AdjacentSums<2> piece(int p) const { return rowPiece(sums_, p); }

 private:
  static constexpr int kCount = kTile.filters / 2;

  using ChunkPixels = const float (&)[kTile.chunkSteps][2][2];

  /** Begins chunk kChunk, where there is one, and adds up the one before as it runs. */
  template <int kChunk>
  __device__ void addBeside(uint64_t b, bool exists, ChunkPixels pixels) {
    if (!exists) return;
    begin<kChunk>(b, pixels);
    finish<(kChunk - 1) % 2, 1>();
  }

  template <int kChunk>
  __device__ void begin(uint64_t b, ChunkPixels pixels) {
    beginProducts();
#pragma unroll
    for (int i = 0; i < kTile.chunkSteps; ++i) {
      const int step = kChunk * kTile.chunkSteps + i;
      // As descriptors have them
      const uint64_t at = b + step * (kHalves.stepBytes() >> 4);
      uint32_t high[4], low[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const Tf32Pair pair = splitTf32(pixels[i][j / 2][j % 2]);
        high[j] = pair.high, low[j] = pair.low;
      }
      if (i == 0) {
        beginMultiplyTf32<false>(high_[kChunk % 2], high, at);
      } else {
        beginMultiplyTf32<true>(high_[kChunk % 2], high, at);
      }
      if (step == 0) {
        beginMultiplyTf32<false>(cross_, low, at);
      } else {
        beginMultiplyTf32<true>(cross_, low, at);
      }
    }
    commitProducts();
  }

  /** Adds that chain up, once no more than kRunning of those begun run on. */
  template <int which, int kRunning>
  __device__ void finish() {
    waitForProducts<kRunning>(high_[which]);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums_[i] += high_[which][i] + high_[which][kCount + i];
  }

  /** The last are those of high pixels, by high filters and then by low ones */
  float sums_[kCount] = {}, cross_[kCount], high_[2][2 * kCount];
};

}  // namespace warpconv::cuda::pointwise
