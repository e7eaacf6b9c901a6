#pragma once

#include "cuda/epilogue.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/sum_again.cuh"
#include "cuda/pointwise/tile_output.cuh"

namespace warpconv::cuda::pointwise {

// Of warpgroups' products whose rows are pixels and whose columns are filters: of these a thread has pieces, each of a
// filter and the thread's two pixels.

/**
 * The block's pixel that is a thread's first or second: those of rows g and g + 8 of a warp, g = lane / 4. Where pixels
 * are read two at a time they follow each other.
 */
template <bool aligned>
__device__ inline int rowPixel(int i) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  return warp * 16 + (aligned ? 2 * g + i : 8 * i + g);
}

/** Of piece p, the tile's filter. */
__device__ inline int rowFilter(int p) { return p / 2 * 8 + threadIdx.x % 4 * 2 + p % 2; }

/** Of piece p, this thread's sums, of all that products leave it. */
template <int kCount>
__device__ inline AdjacentSums<2> rowPiece(const float (&sums)[kCount], int p) {
  const int first = p / 2 * 4 + p % 2;
  return {{sums[first], sums[first + 2]}};
}

/**
 * Finishes and stores the outputs of a thread's pieces, kCount of them: `first`, `first` + `step`, and so on. Filters
 * have scales where they are `scaled`.
 */
template <bool aligned, bool scaled, int kCount>
class RowOutputs {
  using Piece = AdjacentSums<2>;

 public:
  /** Of tiles of so many filters */
  __device__ RowOutputs(const Arguments& x, const SplitTile& own, int tileFilters, int first, int step)
      : x_(x), own_(own), tileFilters_(tileFilters), first_(first), step_(step) {}

  /** Where they lie, and what the plan knows of their filters. Reads of its own alone, and waits for nothing. */
  __device__ void find(int endPixel) {
    const float* const inverses = x_.filterInverses + own_.group * x_.filterTiles * tileFilters_;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int k = filterOf(i);
      const bool exists = k < x_.groupOutputs;
      if constexpr (scaled) inverses_[i] = __ldg(inverses + k);
      biases_[i] = x_.bias != nullptr && exists ? __ldg(x_.bias + own_.group * x_.groupOutputs + k) : 0.0f;
      channels_[i] = exists ? k * x_.outputArea : kBeyond;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pixel = own_.firstPixel + rowPixel<aligned>(i);
      offsets_[i] = pixel < endPixel ? outputOffset(x_, pixel, own_.group) : kBeyond;
    }
  }

  /** Of the pieces from kBegin on. With `bounded`, where isBounded. */
  template <bool bounded, int kBegin = 0, int kSome>
  __device__ void store(Piece (&sums)[kSome]) const {
    float zero = 0.0f;
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
#pragma unroll
      for (float& sum : sums[i].x) {
        if constexpr (scaled) sum *= inverses_[kBegin + i];
        zero = fmaf(sum, 0.0f, zero);
      }
    }
    if (zero != 0.0f) makeAgain<kBegin>(sums);
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      const int channel = channels_[kBegin + i];
#pragma unroll
      for (float& sum : sums[i].x) sum += biases_[kBegin + i];
      if constexpr (bounded) {
#pragma unroll
        for (float& sum : sums[i].x) sum = clamp(sum, x_.activation);
      } else {
        addResidual(sums[i], channel);
        activate(sums[i], x_.activation);
      }
      if (channel != kBeyond) write(sums[i], channel);
    }
  }

 private:
  __device__ int filterOf(int i) const { return own_.firstFilter + rowFilter(first_ + i * step_); }

  template <int kBegin, int kSome>
  __device__ void makeAgain(Piece (&sums)[kSome]) const {
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      if (channels_[kBegin + i] == kBeyond) continue;
      sums[i] = madeAgain(x_, own_.group, filterOf(kBegin + i), own_.firstPixel, sums[i]);
    }
  }
  /**
   * With those that are not finite made again: see TensorSums for why they may be wrong, and lacksBits. By value, since
   * what a call is given by reference lies in memory for the whole kernel.
   */
  static __device__ __noinline__ Piece madeAgain(const Arguments& x, int group, int filter, int firstPixel,
                                                 Piece sums) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pixel = firstPixel + rowPixel<aligned>(i);
      if (!isfinite(sums.x[i]) && pixel < x.pixels) sums.x[i] = sumAgain(x, group, 0, x.groupInputs, filter, pixel);
    }
    return sums;
  }

  __device__ void addResidual(Piece& sums, int channel) const {
    if (x_.residual == nullptr || channel == kBeyond) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (offsets_[i] != kBeyond) sums.x[i] += x_.residual[offsets_[i] + channel];
    }
  }
  __device__ void write(const Piece& sums, int channel) const {
    if constexpr (aligned) {
      if (offsets_[0] != kBeyond) *reinterpret_cast<Piece*>(x_.output + (offsets_[0] + channel)) = sums;
    } else {
      storeEach(sums, offsets_, channel, x_.output);
    }
  }

  const Arguments& x_;
  // A copy: where it referred to that of the block whose member this is, the whole block lay on the stack.
  const SplitTile own_;
  int tileFilters_, first_, step_;
  /** Of this thread's pixels, and of its filters' channels from there on: kBeyond where there is no output */
  int offsets_[2], channels_[kCount];
  float inverses_[scaled ? kCount : 1], biases_[kCount];
};

}  // namespace warpconv::cuda::pointwise
