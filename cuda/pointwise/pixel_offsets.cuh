#pragma once

#include "cuda/epilogue/tile_outputs.cuh"
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

/** For storeTile, with the offsets that findOutputOffsets gave. */
struct TileOutputs {
  const Arguments& x;
  int group;
  const int* offsets;

  __device__ Epilogue epilogue() const { return {x.bias, x.residual, x.activation}; }
  __device__ int channels() const { return x.groupOutputs; }
  __device__ int channelsBefore() const { return group * x.groupOutputs; }
  __device__ int channelSize() const { return x.outputArea; }
  __device__ float* output() const { return x.output; }
  __device__ bool aligned() const { return x.aligned; }
};

}  // namespace warpconv::cuda::pointwise
