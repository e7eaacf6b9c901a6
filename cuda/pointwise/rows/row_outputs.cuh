#pragma once

#include "cuda/epilogue/store_pieces.cuh"
#include "cuda/kernel/in_register.cuh"
#include "cuda/pointwise/early_addresses.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/rows/shape.h"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/sum_again.cuh"

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
 * Finishes and stores the outputs of a thread's pieces, kCount of them: `first`, `first` + kStep, and so on. Filters
 * have scales where they are `scaled`. Half of the instructions that followed a block's products found where each piece
 * lies and whether there is one, which is now known before; those that look for what is not finite follow the stores.
 * On an H100 that took 5 % from pw_112_16_96, 4 % from pw_56_24_144, and 1 to 2 % from most others.
 */
template <bool aligned, bool scaled, int kStep, int kCount>
class RowOutputs {
  using Piece = AdjacentSums<2>;

 public:
  /** Of tiles of so many filters */
  __device__ RowOutputs(const Arguments& x, const SplitTile& own, int tileFilters, int first)
      : x_(x), own_(own), tileFilters_(tileFilters), firstPiece_(first) {}

  /** Where they lie, and what the plan knows of their filters. Reads of its own alone, and waits for nothing. */
  __device__ void find(int endPixel) {
    const float* const inverses = x_.filterInverses + own_.group * x_.filterTiles * tileFilters_;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int k = filterOf(i);
      const bool hasBias = x_.bias != nullptr && k < x_.groupOutputs;
      if constexpr (scaled) inverses_[i] = __ldg(inverses + k);
      biases_[i] = hasBias ? __ldg(x_.bias + own_.group * x_.groupOutputs + k) : 0.0f;
    }
    int offsets[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pixel = own_.firstPixel + rowPixel<aligned>(i);
      filters_[i] = inRegister(pixel < endPixel ? x_.groupOutputs - filterOf(0) : 0);
      offsets[i] = outputOffset(x_, min(pixel, endPixel - 1), own_.group);
    }
    first_ = offsets[0] + filterOf(0) * x_.outputArea;
    at_ = inRegister(static_cast<uint64_t>(__cvta_generic_to_global(x_.output + first_)));
    second_ = inRegister(offsets[1] - offsets[0]);
    outputArea_ = inRegister(x_.outputArea);
    if constexpr (kStep == 1) keepEarly(at_ + filters_[0]);
  }

  /** Of the pieces from kBegin on. With `bounded`, where isBounded. */
  template <bool bounded, int kBegin = 0, int kSome>
  __device__ void store(Piece (&sums)[kSome]) const {
    storePieces<bounded, scaled>(sums, x_.activation, From<kBegin>{*this});
  }

 private:
  /** From a thread's first piece to the `i`th of its own: filters */
  static constexpr __device__ int filtersTo(int i) { return kStep == 1 ? i / 2 * 8 + i % 2 : i * kStep / 2 * 8; }
  static_assert(kStep == 1 || kStep % 2 == 0);

  __device__ int filterOf(int i) const { return own_.firstFilter + rowFilter(firstPiece_) + filtersTo(i); }

  __device__ bool exists(int i, int pixel) const { return filtersTo(i) < filters_[pixel]; }

  /** What storePieces asks for */
  template <int kBegin>
  struct From {
    const RowOutputs& all;

    __device__ float inverse(int i) const { return all.inverses_[scaled ? kBegin + i : 0]; }
    __device__ float bias(int i) const { return all.biases_[kBegin + i]; }
    __device__ void makeAgain(int i, Piece& sums) const {
      if (!all.exists(kBegin + i, 0)) return;
      sums = madeAgain(all.x_, all.own_.group, all.filterOf(kBegin + i), all.own_.firstPixel, sums);
    }
    __device__ void addResidual(int i, Piece& sums) const { all.addResidual(sums, kBegin + i); }
    __device__ void write(int i, const Piece& sums) const { all.write(sums, kBegin + i); }
  };

  /** By value, since what a call is given by reference lies in memory for the whole kernel. */
  static __device__ __noinline__ Piece madeAgain(const Arguments& x, int group, int filter, int firstPixel,
                                                 Piece sums) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pixel = firstPixel + rowPixel<aligned>(i);
      if (!isfinite(sums.x[i]) && pixel < x.pixels) sums.x[i] = sumAgain(x, group, 0, x.groupInputs, filter, pixel);
    }
    return sums;
  }

  __device__ void addResidual(Piece& sums, int i) const {
    if (x_.residual == nullptr) return;
    const float* const at = x_.residual + (first_ + filtersTo(i) * outputArea_);
    if (exists(i, 0)) sums.x[0] += at[0];
    if (exists(i, 1)) sums.x[1] += at[second_];
  }
  __device__ void write(const Piece& sums, int i) const {
    // By 32 bits: of a kept number the compiler does not know that it is not negative, and multiplies by 64.
    uint64_t there;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(there) : "r"(outputArea_), "r"(4 * filtersTo(i)), "l"(at_));
    auto* const at = static_cast<float*>(__cvta_global_to_generic(there));
    if constexpr (aligned) {
      if (exists(i, 0)) sums.store(at);
    } else {
      if (exists(i, 0)) at[0] = sums.x[0];
      if (exists(i, 1)) at[second_] = sums.x[1];
    }
  }

  const Arguments& x_;
  // A copy: where it referred to that of the block whose member this is, the whole block lay on the stack.
  const SplitTile own_;
  int tileFilters_, firstPiece_;
  /** Filters from the thread's first one on of each of its pixels, none where there is no such pixel */
  int filters_[2];
  /** Of the first output of all, its offset and its address in global memory */
  int first_;
  uint64_t at_;
  /** From a filter's first pixel to its second, and from filter to filter */
  int second_, outputArea_;
  float inverses_[scaled ? kCount : 1], biases_[kCount];
};

}  // namespace warpconv::cuda::pointwise
