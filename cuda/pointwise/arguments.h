#pragma once

#include "cuda/epilogue/bounded_activation.h"
#include "cuda/kernel/fast_divisor.h"

namespace warpconv::cuda::pointwise {

/**
 * What every kernel is given. The output is a matrix of filters x pixels for each group, the pixels of all images in a
 * row; element (k, j) is output[((n * groups + g) * K' + k) * P * Q + j % (P * Q)], n = j / (P * Q).
 */
struct Arguments {
  const float* input;
  /** [groups][C'][weightPitch], the filters in a row, zeros after the last */
  const float* weight;
  /** Filters as warpgroups' products take them (filter_halves.cu), and the inverse of each one's scale */
  const uint32_t* halves;
  const float* filterInverses;
  const float* bias;
  const float* residual;
  float* output;
  BoundedActivation activation;

  int groups;
  /** C' and K', of one group */
  int groupInputs, groupOutputs;
  int weightPitch;
  /** H * W, P * Q and N * P * Q */
  int inputArea, outputArea, pixels;
  int inputWidth, outputWidth;
  int strideH, strideW;
  /** Stride 1: an output pixel lies where its input pixel does. */
  bool contiguous;
  /** Four neighbouring pixels from a multiple of four are 16 aligned bytes, in the input and in the output. */
  bool aligned;

  /** Those of a block, of warpgroups' products: as many of a tile's as divide all evenly */
  int tilePixels;

  /** Block tiles of filters in one group; tiles of pixels that a block walks through (the paper's Iter) */
  int filterTiles;
  int iterations;
  /** Blocks of a cluster that share a tile, and the channels of each */
  int split, splitChannels;
  /** Of copies of what the kernel reads of filters, a power of two: one less; and words from one to the next */
  int copyMask, copyWords;

  FastDivisor byOutputArea, byOutputWidth, byFilterTiles, byGroups, bySplit;
};

}  // namespace warpconv::cuda::pointwise
