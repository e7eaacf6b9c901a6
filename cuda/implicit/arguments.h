#pragma once

#include <cuda.h>

#include "cuda/epilogue/bounded_activation.h"
#include "cuda/kernel/fast_divisor.h"
#include "problem/conv_format.h"

namespace warpconv::cuda::implicit {

/** What a kernel is launched with. */
struct Arguments {
  /** Of the input, by windows of one tap: 128 bytes of channels of a tile's pixels */
  CUtensorMap input;
  /** Boxes of 64 pixels by a tile's boxChannels, for blocks that persist */
  CUtensorMap residualBoxes, outputBoxes;
  /** See filter_order.cu */
  const void* filters;
  const float* bias;
  const void* residual;
  void* output;
  /** Elements from one pixel to the next */
  int residualPitch, outputPitch;
  /** Of float32 beside an input of halves: not for blocks that persist */
  bool floatResidual, floatOutput;
  BoundedActivation activation;
  /** N * P * Q, and K */
  int pixels, channels;
  /** K rounded up to kFilterRows */
  int filterRows;
  /** Of the sum: taps times chunks of the input's channels */
  int chunks, channelChunks;
  int s, strideH, strideW, padTop, padLeft, dilationH, dilationW;
  FastDivisor byTilesN, byImage, byRow, byChannelChunks, byColumns;
  int tilesN, tiles;
  int stages;
  /** log2 of the boxes of outputs that a warpgroup has room for, where blocks persist */
  int heldBoxes;
  /** Where barriers lie in shared memory, behind all else */
  int barriersAt;
  /** Blocks of a cluster, each of which sums over some of the chunks */
  int split;
};

using Kernel = void (*)(const Arguments);

/** Of kTiles[tile] for an input of that type, of float32 by TF32; `persists` for blocks that take tile after tile, and
 * not one each, or a share of one. */
Kernel kernelOf(int tile, FloatType type, bool persists);

}  // namespace warpconv::cuda::implicit
