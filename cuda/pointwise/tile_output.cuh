#pragma once

#include "cuda/epilogue.cuh"
#include "cuda/pointwise/arguments.h"

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

__device__ inline float4 finishFour(const Epilogue& epilogue, float4 sum, int k, int index) {
  if (epilogue.bias != nullptr) {
    const float bias = epilogue.bias[k];
    sum = {sum.x + bias, sum.y + bias, sum.z + bias, sum.w + bias};
  }
  if (epilogue.residual != nullptr) {
    const float4 residual = *reinterpret_cast<const float4*>(epilogue.residual + index);
    sum = {sum.x + residual.x, sum.y + residual.y, sum.z + residual.z, sum.w + residual.w};
  }
  return {activate(sum.x, epilogue.activation), activate(sum.y, epilogue.activation),
          activate(sum.z, epilogue.activation), activate(sum.w, epilogue.activation)};
}

/**
 * Finishes and stores a tile of which `sumOf(row, column)` and `sumsOf` (of four neighbours) give the sums and
 * `filterOf(row)`, increasing with the row, the filter of the group. A rolled loop over a staged tile: activations
 * inlined for each register would fill the instruction cache. Masks what lies beyond the last filter and pixel. Of
 * `shares` blocks that share the tile, the block `share` stores every so manieth piece.
 */
template <int rows, int pixels, int threads>
__device__ void storeTile(const Arguments& x, int group, const int* offsets, int share, int shares, auto filterOf,
                          auto sumOf, auto sumsOf) {
  const Epilogue epilogue{x.bias, x.residual, x.activation};
  if (pixels % 4 == 0 && x.aligned) {
    for (int i = 4 * (share * threads + threadIdx.x); i < rows * pixels; i += 4 * shares * threads) {
      const int filter = filterOf(i / pixels);
      const int offset = offsets[i % pixels];
      if (filter >= x.groupOutputs || offset == kBeyond) continue;
      const int index = offset + filter * x.outputArea;
      const float4 sums = sumsOf(i / pixels, i % pixels);
      *reinterpret_cast<float4*>(x.output + index) = finishFour(epilogue, sums, group * x.groupOutputs + filter, index);
    }
    return;
  }
  for (int i = share * threads + threadIdx.x; i < rows * pixels; i += shares * threads) {
    const int filter = filterOf(i / pixels);
    const int offset = offsets[i % pixels];
    if (filter >= x.groupOutputs || offset == kBeyond) continue;
    const int index = offset + filter * x.outputArea;
    x.output[index] = finish(epilogue, sumOf(i / pixels, i % pixels), group * x.groupOutputs + filter, index);
  }
}

}  // namespace warpconv::cuda::pointwise
