#pragma once

#include "cuda/kernel/adjacent.cuh"
#include "cuda/pointwise/early_addresses.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/warpgroup/tile.h"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

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
 * eight; low ones follow each eight channels' high ones, or all, see WarpgroupTile::isPaired. A thread has four pixels
 * of eight channels where it can read four at once. Otherwise it has one of 32 channels, so that a warp reads 32
 * neighbours together.
 */
template <WarpgroupTile kTile, bool aligned>
class ChunkPixels {
  static constexpr int kAtOnce = aligned ? WarpgroupTile::kThreadEights : 1, kPlaces = kTile.pixels / kAtOnce;
  /** Eight channels each, of a thread */
  static constexpr int kEights = WarpgroupTile::kThreadEights / kAtOnce, kKept = aligned ? 8 : 1;

 public:
  /** What a thread has of a chunk */
  struct Chunk {
    float x[kEights][8][kAtOnce];
  };
  /**
   * Of a chunk, the thread's first pixel in each channel, or in the first of each eight where that many are too many to
   * keep; and whether the eight exist
   */
  struct Addresses {
    const float* at[kEights][kKept];
    bool exist[kEights];
  };

  __device__ ChunkPixels(const Arguments& x, const SplitTile& own, int endPixel)
      : inputArea_(x.inputArea), place_(threadIdx.x % kPlaces), eight_(threadIdx.x / kPlaces * kEights) {
    const int pixel = own.firstPixel + place_ * kAtOnce, firstChannel = own.firstChannel + eight_ * 8;
    left_ = pixel < endPixel ? own.endChannel - firstChannel : 0;
    const int first = inputOffset(x, min(pixel, endPixel - kAtOnce), own.group);
    first_ = asBytes(x.input + (first + firstChannel * inputArea_));
  }

  __device__ Addresses addressesOf(int chunk) const {
    Addresses addresses;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int channel = chunk * kTile.chunkChannels() + i * 8;
#pragma unroll
      for (int c = 0; c < kKept; ++c) {
        addresses.at[i][c] = reinterpret_cast<const float*>(first_ + int64_t{4 * (channel + c)} * inputArea_);
      }
      addresses.exist[i] = channel < left_;
    }
    return addresses;
  }

  /** While the kernel before runs. */
  template <int kChunks>
  static __device__ void keep(const Addresses (&of)[kChunks]) {
    uint64_t all = 0;
#pragma unroll
    for (int i = 0; i < kChunks * kEights; ++i) {
#pragma unroll
      for (const float* at : of[i / kEights].at[i % kEights]) all ^= reinterpret_cast<uint64_t>(at) << i;
    }
    keepEarly(all);
  }

  /** Zeros beyond the block's pixels, and beyond its channels, whose filters here may be another's. */
  __device__ void load(Chunk& chunk, const Addresses& from) const {
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        loadOrZero<kAtOnce>(chunk.x[i][c], from.at[i][c % kKept] + c / kKept * inputArea_, from.exist[i]);
      }
    }
  }

  /** Splits and stores what was loaded. Gives back the inverse of the scale. `largest`: for four aligned numbers. */
  __device__ float split(const Chunk& chunk, uint32_t shared, float* largest) const {
    float most = 0.0f;
#pragma unroll
    for (const auto& eight : chunk.x) {
#pragma unroll
      for (const auto& pixels : eight) {
#pragma unroll
        // NaN, which makes its products NaN at any scale, does not count.
        for (const float pixel : pixels) most = fmaxf(most, fabsf(pixel));
      }
    }
    const float scale = scaleFor(largestOfAll(most, largest));
#pragma unroll
    for (int i = 0; i < kEights * kAtOnce; ++i) {
      const int eight = i / kAtOnce, pixel = i % kAtOnce;
      const int column = Columns<aligned>::columnOf(place_ * kAtOnce + pixel);
      const uint32_t piece = shared + ((eight_ + eight) * kTile.planeColumns() + column) * 16;
      float ofPiece[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) ofPiece[c] = chunk.x[eight][c][pixel];
      Fp16Pairs pairs[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) pairs[c] = splitFp16(ofPiece[2 * c], ofPiece[2 * c + 1], scale);
      if (lacksBits(ofPiece, scale)) pairs[0].high = kTwoNaNs;
      storeFour(piece, pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
      storeFour(piece + kTile.lowBytes(), pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
    }
    return inverseOf(scale);
  }

 private:
  __device__ static float largestOfAll(float own, float* largest) {
    const float ofWarp = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(own)));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = ofWarp;
    __syncthreads();
    const float4 four = *reinterpret_cast<const float4*>(largest);
    return fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
  }

  const int inputArea_;
  /** Which pixels of the tile are this thread's, and which first eight channels of a chunk */
  const int place_, eight_;
  /** Channels from the thread's first to the block's end */
  int left_;
  const char* first_;
};

}  // namespace warpconv::cuda::pointwise
