#pragma once

#include "cuda/cluster.cuh"
#include "cuda/epilogue.cuh"
#include "cuda/pointwise/arguments.h"

namespace warpconv::cuda::pointwise {

/** A pixel's place: the matrix's column j is pixel j % (P * Q) of image j / (P * Q). */
struct Pixel {
  int image;
  int position;
};

__device__ inline Pixel pixelAt(const Arguments& x, int column) {
  const int image = x.byOutputArea.divide(column);
  return {image, column};
}

/** Offset of the pixel in channel 0 of the input's `group`. */
__device__ inline int inputOffset(const Arguments& x, int column, int group) {
  const Pixel pixel = pixelAt(x, column);
  const int map = (pixel.image * x.groups + group) * x.groupInputs;
  if (x.contiguous) return map * x.inputArea + pixel.position;
  int q = pixel.position;
  const int p = x.byOutputWidth.divide(q);
  return map * x.inputArea + p * x.strideH * x.inputWidth + q * x.strideW;
}

/** Offset of the pixel in filter 0 of the output's `group`. */
__device__ inline int outputOffset(const Arguments& x, int column, int group) {
  const Pixel pixel = pixelAt(x, column);
  return (pixel.image * x.groups + group) * x.groupOutputs * x.outputArea + pixel.position;
}

/**
 * The pixels' offsets in the output, kBeyond after the last: found once a block, so that the loop that stores divides
 * by nothing.
 */
template <int pixels, int threads>
__device__ void findOutputOffsets(const Arguments& x, int firstPixel, int group, int* offsets) {
  for (int i = threadIdx.x; i < pixels; i += threads) {
    offsets[i] = firstPixel + i < x.pixels ? outputOffset(x, firstPixel + i, group) : kBeyond;
  }
}

/**
 * What the blocks of a cluster, and the parts of each, `apart` floats from one to the next, have staged for the outputs
 * at `own`, in the order of ranks and parts.
 */
template <int kWidth, int parts>
__device__ AdjacentSums<kWidth> sumOfShares(float* own, int blocks, int apart) {
  AdjacentSums<kWidth> sum{};
  if (blocks == 1) {
#pragma unroll
    for (int part = 0; part < parts; ++part) sum.add(own + part * apart);
    return sum;
  }
#pragma unroll 4
  for (int rank = 0; rank < blocks; ++rank) {
    const float* const staged = sharedOf(own, blocks, rank);
#pragma unroll
    for (int part = 0; part < parts; ++part) sum.add(staged + part * apart);
  }
  return sum;
}

/**
 * Finishes and stores a tile of which `sumsOf<kWidth>(row, column)` gives the sums and `filterOf(row)`, increasing with
 * the row, the filter of the group. A rolled loop over a staged tile: activations inlined for each register would fill
 * the instruction cache. Masks what lies beyond the last filter and pixel. Of `shares` blocks that share the tile, the
 * block `share` stores every so manieth piece. `rolled` keeps the loop to few registers. What most outputs need, and no
 * more, has a loop of its own: see isBounded; with `bounded`, which says that it is, there is no other.
 */
template <int rows, int pixels, int threads, bool bounded = false, bool rolled = false>
__device__ void storeTile(const Arguments& x, int group, const int* offsets, int share, int shares, auto filterOf,
                          auto sumsOf) {
  const Epilogue epilogue{x.bias, x.residual, x.activation};
  const auto storeAt = [&]<int kWidth>(int i, auto finishSums) {
    const int filter = filterOf(i / pixels);
    const int offset = offsets[i % pixels];
    if (filter >= x.groupOutputs || offset == kBeyond) return;
    const int index = offset + filter * x.outputArea;
    AdjacentSums<kWidth> sums = sumsOf.template operator()<kWidth>(i / pixels, i % pixels);
    finishSums(sums, group * x.groupOutputs + filter, index);
    *reinterpret_cast<AdjacentSums<kWidth>*>(x.output + index) = sums;
  };
  const auto storeAll = [&]<int kWidth>(auto finishSums) {
    const int first = kWidth * (share * threads + threadIdx.x), step = kWidth * shares * threads;
    if constexpr (rolled) {
#pragma unroll 1
      for (int i = first; i < rows * pixels; i += step) storeAt.template operator()<kWidth>(i, finishSums);
    } else {
      for (int i = first; i < rows * pixels; i += step) storeAt.template operator()<kWidth>(i, finishSums);
    }
  };
  const auto storeBy = [&]<int kWidth>() {
    if (bounded || isBounded(epilogue)) {
      storeAll.template operator()<kWidth>(
          [&](AdjacentSums<kWidth>& sums, int k, int) { finishBounded(epilogue, sums, biasOf(epilogue, k)); });
    } else {
      storeAll.template operator()<kWidth>(
          [&](AdjacentSums<kWidth>& sums, int k, int index) { finish(epilogue, sums, k, index); });
    }
  };
  if (pixels % 4 == 0 && x.aligned) {
    storeBy.template operator()<4>();
  } else {
    storeBy.template operator()<1>();
  }
}

}  // namespace warpconv::cuda::pointwise
