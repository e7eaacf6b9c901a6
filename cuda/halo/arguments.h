#pragma once

#include <cuda_runtime_api.h>

#include "cuda/epilogue.cuh"
#include "cuda/fast_divisor.h"
#include "cuda/halo/tile.h"
#include "cuda/shape.h"

namespace warpconv::cuda::halo {

/** Everything one launch reads; offsets in elements. */
struct Arguments {
  Shape shape;
  const float* input;
  /**
   * What roundForTf32 gives, in the order in which threads take them:
   * [group][block of kWarpgroupM outputs][chunk][tap][8 channels][thread][4], with zeros beyond the group's filters and
   * channels
   */
  const float* filter;
  float* output;
  Epilogue epilogue;

  /** Of the grid: all, and those of a block's patch in one phase */
  int positions, patch;
  int phases;
  FastDivisor byImage, byRow, byPatch, byColumnPhases;
  /** phase * patch + shift */
  uint16_t taps[kMostTaps];
  int tapCount;

  /** Chunks of channels: all, and of one block of a cluster but the last */
  int chunks, chunksPerBlock;
  int stages;
  /** Of blocks of kWarpgroupM outputs in a group, padded to the tile */
  int outputBlocks;
  /** Block b = ((group * tilesN + tileN) * tilesM + tileM) * cluster + rank */
  int cluster;
  FastDivisor byCluster, byTilesM, byTilesN;
};

using Kernel = void (*)(Arguments);

/** K x C/groups x R x S filters as Arguments::filter wants them. */
void launchFilterOrder(const Shape& shape, int outputBlocks, int chunks, const float* filter, float* ordered,
                       cudaStream_t stream);

/** Of kTiles[tile]; launched with its threads and the plan's shared memory. */
Kernel kernelOf(int tile);

}  // namespace warpconv::cuda::halo
