#pragma once

#include "cuda/adjacent.cuh"
#include "cuda/fp16_split.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/tile_output.cuh"
#include "cuda/pointwise/tiles.h"
#include "cuda/warpgroup.cuh"

namespace warpconv::cuda::pointwise {

/**
 * Which pixel of a tile is which column of its products. Where a thread can store four pixels together, they are two
 * pairs of columns eight apart: of just these a thread has the sums. Pairs of every other sixteen are the other way
 * round: eight threads, with 32 pixels, then store their first, or second, and so on, to all banks of shared memory.
 */
template <bool aligned>
struct Columns {
  static __device__ int columnOf(int pixel) {
    if (!aligned) return pixel;
    return pixel / 16 * 16 + pixel / 2 % 2 * 8 + pixel / 4 % 4 * 2 + (pixel % 2 ^ swapped(pixel));
  }
  static __device__ int pixelOf(int column) {
    if (!aligned) return column;
    return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + (column % 2 ^ swapped(column));
  }
  /** Of a pair of columns, which is the first pixel's. */
  static __device__ int swapped(int column) { return aligned ? column / 16 % 2 : 0; }
};

/**
 * Brings the pixels of a block's channels to shared memory, a chunk of channels at a time, by way of registers, where
 * they are split into FP16's halves: pieces of eight channels of a column, column by column and eight channels after
 * eight; low ones follow each eight channels' high ones, or all, see WarpgroupTile::isPaired.
 */
template <WarpgroupTile kTile, bool aligned>
class ChunkPixels {
  static constexpr int kPixels = WarpgroupTile::kThreadPixels, kPlaces = kTile.pixels / kPixels;

 public:
  /** What a thread has of a chunk */
  struct Chunk {
    float x[8][kPixels];
  };

  /** Pixels from `endPixel` on are zeros. */
  __device__ ChunkPixels(const Arguments& x, const SplitTile& own, int endPixel)
      : inputArea_(x.inputArea), place_(threadIdx.x % kPlaces), eight_(threadIdx.x / kPlaces) {
    const int first = own.firstChannel + eight_ * 8;
    left_ = own.endChannel - first;
#pragma unroll
    for (int i = 0; i < kPointers; ++i) {
      const int pixel = own.firstPixel + pixelOf(i);
      exists_[i] = pixel < endPixel;
      pixels_[i] = x.input + (inputOffset(x, min(pixel, x.pixels - 1), own.group) + first * inputArea_);
    }
  }

  /** Begins to load the next chunk. Only after waitForKernelsBefore, which such loads do not overtake. */
  __device__ void load(Chunk& chunk) {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      for (int i = 0; i < kPixels; ++i) chunk.x[c][i] = 0.0f;
#pragma unroll
      for (int i = 0; i < kPointers; ++i) {
        if (c < left_ && exists_[i]) loadAdjacent<kPixels / kPointers>(&chunk.x[c][i], pixels_[i] + c * inputArea_);
      }
    }
    left_ -= kTile.chunkChannels();
#pragma unroll
    for (int i = 0; i < kPointers; ++i) pixels_[i] += kTile.chunkChannels() * inputArea_;
  }

  /** Splits and stores what was loaded. Gives back the inverse of the scale. `largest`: for four aligned numbers. */
  __device__ float split(const Chunk& chunk, uint32_t shared, float* largest) const {
    float most = 0.0f;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      // NaN, which makes its products NaN at any scale, does not count.
      for (int i = 0; i < kPixels; ++i) most = fmaxf(most, fabsf(chunk.x[c][i]));
    }
    const float scale = scaleFor(largestOfAll(most, largest));
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const uint32_t piece = shared + (eight_ * kTile.planeColumns() + Columns<aligned>::columnOf(pixelOf(i))) * 16;
      float ofPixel[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) ofPixel[c] = chunk.x[c][i];
      Fp16Pairs pairs[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) pairs[c] = splitFp16(ofPixel[2 * c], ofPixel[2 * c + 1], scale);
      if (lacksBits(ofPixel, scale)) pairs[0].high = kTwoNaNs;
      storeFour(piece, pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
      storeFour(piece + kTile.lowBytes(), pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
    }
    return inverseOf(scale);
  }

 private:
  static constexpr int kPointers = aligned ? 1 : kPixels;

  /** The `i`th of this thread's, of the tile: adjacent ones where they are read together, otherwise neighbours' are. */
  __device__ int pixelOf(int i) const { return aligned ? place_ * kPixels + i : i * kPlaces + place_; }

  __device__ static float largestOfAll(float own, float* largest) {
    const float ofWarp = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(own)));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = ofWarp;
    __syncthreads();
    const float4 four = *reinterpret_cast<const float4*>(largest);
    return fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
  }

  const int inputArea_;
  /** This thread's pixels, and its eight channels of the chunk */
  const int place_, eight_;
  /** Channels from its own on */
  int left_;
  bool exists_[kPointers];
  const float* pixels_[kPointers];
};

}  // namespace warpconv::cuda::pointwise
