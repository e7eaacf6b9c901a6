#pragma once

#include <cuda_runtime_api.h>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/planning/shape.h"
#include "cuda/stem/tile.h"

namespace warpconv::cuda::stem {

/** Everything one launch reads; offsets in elements. */
struct Arguments {
  Shape shape;
  const float* input;
  /**
   * Split filters, each output channel's by a scale of its own, as products take them from shared memory: [group][block
   * of outputs][step][high, low][four pairs][output][4] words of two elements, with zeros beyond the group's filters
   * and past the last pair
   */
  const uint32_t* filter;
  /** Of the filters' scales: [group][block of outputs][blockM] */
  const float* filterInverses;
  float* output;
  Epilogue epilogue;

  /** See Patch. */
  int patchStep, patchRows, rowWords;
  /** Words that a thread brings */
  int wordsEach;
  FastDivisor byRowWords, byPatchRows;
  /** Patches that shared memory has room for: two where a block has several tiles, one after the other */
  int patches;
  /** Of pairs of elements in a filter row; and steps of a sum */
  int pairs, steps;
  /** Of each pair, past the last one that of the first */
  uint16_t offsets[(kMostSteps + kMostTogether - 1) * kStepPairs];

  /** Four outputs at a time: Q is a multiple of four, and every pointer is 16-byte aligned */
  bool quadOutputs;
  /** Blocks of outputs in a group */
  int outputBlocks;
  /** Block b = column * groups * outputBlocks + group * outputBlocks + block of outputs */
  FastDivisor byGroupBlocks, byOutputBlocks;
  /** A block's tiles are `column`, column + tilesApart and so on, of N x tilesP x tilesQ. */
  int tiles, tilesApart;
  FastDivisor byTilesP, byTilesQ;
};

using Kernel = void (*)(Arguments);

/** K x C/groups x R x S filters as Arguments::filter and Arguments::filterInverses want them, for blocks of blockM. */
void launchFilterOrder(const Arguments& arguments, int blockM, const float* filter, uint32_t* ordered, float* inverses,
                       cudaStream_t stream);

/** Of kTiles[tile]; launched with its threads and the plan's shared memory. */
Kernel kernelOf(int tile);

}  // namespace warpconv::cuda::stem
