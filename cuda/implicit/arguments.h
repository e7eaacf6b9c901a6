#pragma once

#include <cuda.h>

#include "cuda/epilogue/bounded_activation.h"
#include "cuda/kernel/fast_divisor.h"

namespace warpconv::cuda::implicit {

/** What a kernel is launched with. */
struct Arguments {
  /** Of the input, by windows of one tap: 64 channels of a tile's pixels */
  CUtensorMap input;
  /** Boxes of 64 pixels by a tile's boxFilters, for blocks that persist */
  CUtensorMap residualBoxes, outputBoxes;
  /** See filter_order.cu */
  const void* filters;
  const float* bias;
  const void* residual;
  void* output;
  /** Elements from one pixel to the next */
  int residualPitch, outputPitch;
  /** Of float32, and not of the input's type: not for blocks that persist */
  bool floatResidual, floatOutput;
  BoundedActivation activation;
  /** N * P * Q, and K */
  int pixels, channels;
  /** K rounded up to kFilterGroup */
  int filterRows;
  /** Of the sum: taps times chunks of the input's channels */
  int chunks, channelChunks;
  int s, strideH, strideW, padTop, padLeft, dilationH, dilationW;
  FastDivisor byTilesN, byImage, byRow, byChannelChunks, byColumns;
  int tilesN, tiles;
  int stages;
  /** Blocks of a cluster, each of which sums over some of the chunks */
  int split;
};

using Kernel = void (*)(const Arguments);

/** Of kTiles[tile]; `persists` for blocks that take tile after tile, and not one each, or a share of one. */
Kernel kernelOf(int tile, bool isBfloat, bool persists);

}  // namespace warpconv::cuda::implicit
