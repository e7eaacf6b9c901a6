#pragma once

#include "cuda/algorithm.h"
#include "cuda/halo/grid.h"
#include "cuda/halo/tile.h"

namespace warpconv::cuda::halo {

/** What a request comes down to. */
struct Plan {
  /** Of kTiles */
  int tile = 0;
  /** Blocks of a cluster, each of which sums over some of the channels */
  int cluster = 1;
  int stages = 2;
  double milliseconds = 0;
};

/** Elements that a block brings to shared memory for each channel. */
int64_t patchPixels(const HaloTile& tile, const Grid& grid);

/** Chunks of channels of a group. */
int64_t chunksOf(const ConvProblem& problem);

int64_t tilesM(const ConvProblem& problem, const HaloTile& tile);
int64_t tilesN(const Grid& grid, const HaloTile& tile);

/** Shared memory of a block: stages and the offsets of the patch's elements, or the sums, whichever is more. */
int64_t sharedBytes(const HaloTile& tile, const Grid& grid, int stages);

/** The most that sharedBytes of any plan comes to */
int64_t mostSharedBytes(const GpuTraits& traits);

/** Only for what is not refused. */
Plan planHalo(const GpuRequest& request, const Grid& grid);

}  // namespace warpconv::cuda::halo
