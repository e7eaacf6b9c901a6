#pragma once

#include "cuda/epilogue.cuh"
#include "cuda/pointwise/arguments.h"
#include "cuda/staged_sums.cuh"

namespace warpconv::cuda::pointwise {

/** A pixel's place: the matrix's column j is pixel j % (P * Q) of image j / (P * Q). */
struct Pixel {
  int image;
  int position;
};

__device__ inline Pixel pixelAt(const Arguments& x, int column) {
  const int image = column / x.outputArea;
  return {image, column - image * x.outputArea};
}

/** Offset of the pixel in channel 0 of the input's `group`. */
__device__ inline int inputOffset(const Arguments& x, int column, int group) {
  const Pixel pixel = pixelAt(x, column);
  const int map = (pixel.image * x.groups + group) * x.groupInputs;
  if (x.contiguous) return map * x.inputArea + pixel.position;
  const int p = pixel.position / x.outputWidth;
  const int q = pixel.position - p * x.outputWidth;
  return map * x.inputArea + p * x.strideH * x.inputWidth + q * x.strideW;
}

/** Offset of the pixel in filter 0 of the output's `group`. */
__device__ inline int outputOffset(const Arguments& x, int column, int group) {
  const Pixel pixel = pixelAt(x, column);
  return (pixel.image * x.groups + group) * x.groupOutputs * x.outputArea + pixel.position;
}

constexpr int kBeyond = -1;

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

__device__ inline Sums<4> finishFour(const Epilogue& epilogue, Sums<4> sums, int k, int index) {
  if (epilogue.bias != nullptr) {
    const float bias = epilogue.bias[k];
    sums.add({bias, bias, bias, bias});
  }
  if (epilogue.residual != nullptr) sums.add(*reinterpret_cast<const Sums<4>*>(epilogue.residual + index));
#pragma unroll
  for (float& sum : sums.x) sum = activate(sum, epilogue.activation);
  return sums;
}

/**
 * Finishes and stores rows of a staged tile, of which `filterOf(row)`, increasing with the row, is the filter of the
 * group. A rolled loop: activations inlined for each register would fill the instruction cache. Masks what lies beyond
 * the last filter and pixel.
 */
template <int pixels, int threads>
__device__ void storeTile(const Arguments& x, int group, const int* offsets, const StagedRows& staged, auto filterOf) {
  const Epilogue epilogue{x.bias, x.residual, x.activation};
  if (pixels % 4 == 0 && x.aligned) {
#pragma unroll 1
    for (int i = staged.first * pixels + 4 * threadIdx.x; i < staged.end * pixels; i += 4 * threads) {
      const int filter = filterOf(i / pixels);
      const int offset = offsets[i % pixels];
      if (filter >= x.groupOutputs || offset == kBeyond) continue;
      const int index = offset + filter * x.outputArea;
      const Sums<4> sums = staged.sumAt<4>(i / pixels, i % pixels);
      *reinterpret_cast<Sums<4>*>(x.output + index) =
          finishFour(epilogue, sums, group * x.groupOutputs + filter, index);
    }
    return;
  }
#pragma unroll 1
  for (int i = staged.first * pixels + threadIdx.x; i < staged.end * pixels; i += threads) {
    const int filter = filterOf(i / pixels);
    const int offset = offsets[i % pixels];
    if (filter >= x.groupOutputs || offset == kBeyond) continue;
    const int index = offset + filter * x.outputArea;
    const float sum = staged.sumAt<1>(i / pixels, i % pixels).x[0];
    x.output[index] = finish(epilogue, sum, group * x.groupOutputs + filter, index);
  }
}

}  // namespace warpconv::cuda::pointwise
