#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/pointwise/warpgroup/chunk_pixels.cuh"
#include "cuda/pointwise/warpgroup/tile.h"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A warpgroup's sums: filters by columns. Tensor cores cut off what they add up: the products of high halves of four
 * steps are a chain, and chains are added to the sums by ordinary additions; the others, each with a low half and
 * small, with them or chunk by chunk. Those additions take the pixels' scale out.
 */
template <WarpgroupTile kTile, bool aligned>
class WarpgroupSums {
 public:
  /** Begins the products of a chunk, once those before are finished; addresses are of shared memory. */
  __device__ void begin(uint32_t filters, uint32_t pixels) {
    const uint64_t a = columnsAt(filters, WarpgroupTile::kFilters * 16);
    const uint64_t b = columnsAt(pixels, kTile.planeColumns() * 16);
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) {
      beginProducts();
#pragma unroll
      for (int step = firstStep(chain); step < firstStep(chain + 1); ++step) {
        if (step == firstStep(chain)) {
          beginMultiplyFp16<false>(high_[chain], a + step * kFilterStep, b + step * kPixelStep);
        } else {
          beginMultiplyFp16<true>(high_[chain], a + step * kFilterStep, b + step * kPixelStep);
        }
      }
      commitProducts();
    }
    beginProducts();
    beginMultiplyFp16<false>(cross_, a + kFilterStep / 2, b);
#pragma unroll
    for (int step = 0; step < kTile.chunkSteps(); ++step) {
      if (step > 0) {
        beginMultiplyFp16<true>(cross_, a + step * kFilterStep + kFilterStep / 2, b + step * kPixelStep);
      }
      if constexpr (!kTile.isPaired()) {
        beginMultiplyFp16<true>(cross_, a + step * kFilterStep, b + kLowPixels + step * kPixelStep);
      }
    }
    commitProducts();
  }
  /** Adds up what those give, `inverse` being the inverse of the chunk's scale. */
  __device__ void finish(float inverse) {
    addChains<0>(inverse);
    waitForProducts(cross_);
    addUp(cross_, inverse / kLowScale);
  }

  /** The sums of a row that are sent together: see Columns for which pixels' they are. */
  __device__ AdjacentSums<kTile.pieceWidth()> piece(int p) const {
    AdjacentSums<kTile.pieceWidth()> piece;
    const int first = p / 2 * (2 * kTile.pieceWidth()) + p % 2 * 2;
    const int swapped = Columns<aligned>::swapped(p / 2 * (4 * kTile.pieceWidth()));
#pragma unroll
    for (int i = 0; i < kTile.pieceWidth(); ++i) piece.x[i] = sums_[first + i / 2 * 4 + (i % 2 ^ swapped)];
    return piece;
  }
  /** Of piece p, the tile's filter, and its first column: two more begin eight columns further on. */
  static __device__ int rowOf(int p) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + p % 2 * 8; }
  static __device__ int columnOf(int p) { return p / 2 * (4 * kTile.pieceWidth()) + threadIdx.x % 4 * 2; }

 private:
  static constexpr int kCount = kTile.pixels / 2;
  /** With those of high filters and low pixels behind them, where these are paired */
  static constexpr int kHighCount = kTile.planeColumns() / 2;
  static constexpr int kMostOfChain = 4, kChains = (kTile.chunkSteps() + kMostOfChain - 1) / kMostOfChain;
  /** As descriptors have them */
  static constexpr uint32_t kFilterStep = WarpgroupTile::kStepBytes >> 4, kPixelStep = 2 * kTile.planeColumns(),
                            kLowPixels = kTile.lowBytes() >> 4;

  static constexpr __device__ int firstStep(int chain) { return (chain * kTile.chunkSteps() + kChains - 1) / kChains; }

  template <int kChain>
  __device__ void addChains(float inverse) {
    waitForProducts<kChains - kChain>(high_[kChain]);
    addUp(high_[kChain], inverse);
    if constexpr (kTile.isPaired()) addUp(high_[kChain] + kCount, inverse / kLowScale);
    if constexpr (kChain + 1 < kChains) addChains<kChain + 1>(inverse);
  }
  __device__ void addUp(const float* products, float inverse) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums_[i] = fmaf(products[i], inverse, sums_[i]);
  }

  float sums_[kCount] = {}, high_[kChains][kHighCount], cross_[kCount];
};

}  // namespace warpconv::cuda::pointwise
