#pragma once

#include "cuda/epilogue/bounded_activation.h"
#include "cuda/image/tile.h"
#include "cuda/kernel/fast_divisor.h"
#include "problem/conv_format.h"

namespace warpconv::cuda::image {

/** What a kernel is launched with. */
struct Arguments {
  const float* input;
  /** See filter_order.cu */
  const void* filters;
  const float* bias;
  const void* residual;
  void* output;
  /** Elements from one pixel to the next */
  int residualPitch, outputPitch;
  BoundedActivation activation;
  int c, h, w, k, p, q, r, s;
  int strideH, strideW, padTop, padLeft, dilationH;
  /** Pairs of columns in a window's row: half of S, rounded up */
  int windowPairs;
  /** Of kStep elements of a window */
  int steps;
  /** Elements from one filter to the next in shared memory, and filters there: K rounded up to kFilterGroup */
  int filterPitch, filterRows;
  /** A patch: rows of a channel, pairs of columns of a row that are read, and words from one row to the next */
  int patchRows, patchPairs, patchPitch;
  /** Words of a patch, all channels together. Odd strides have two patches: see Patch. */
  int patchWords;
  FastDivisor byPatchPairs, byPatchRows, byWindowPairs, byWindowRows, byTileColumns, byTileRows;
  int tiles;
};

using Kernel = void (*)(const Arguments);

/** Of kTiles[tile], for outputs of float16 or bfloat16. */
Kernel kernelOf(int tile, FloatType type);

}  // namespace warpconv::cuda::image
