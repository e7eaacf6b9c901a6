#pragma once

#include "cuda/algorithm.h"
#include "cuda/halo/grid.h"
#include "cuda/halo/model.h"

namespace warpconv::cuda::halo {

/** What a request comes down to. */
struct Plan {
  /** Of layoutsOf */
  Layout layout;
  /** Of kTiles */
  int tile = 0;
  /** Blocks of a cluster, each of which sums over some of the channels */
  int cluster = 1;
  int stages = 2, slots = 3;
  double milliseconds = 0;
};

/** Elements of a phase that a block brings to shared memory for each channel. */
int64_t patchOf(const HaloTile& tile, const Grid& grid);

/** Chunks of a position's channels. */
int64_t chunksOf(const ConvProblem& problem, const Grid& grid);

int64_t tilesM(const ConvProblem& problem, const HaloTile& tile);
int64_t tilesN(const Grid& grid, const HaloTile& tile);

/**
 * Shared memory of a block: stages, slots, and where the patch's elements are; or of its sums, which take their place,
 * if that is more.
 */
int64_t sharedBytes(const HaloTile& tile, const Grid& grid, int stages, int slots);

/** The most that sharedBytes of a tile's plans comes to */
int64_t mostSharedBytes(const GpuTraits& traits, const HaloTile& tile);

/** Blocks of kWarpgroupM outputs in a group, padded to the tile */
int64_t outputBlocksOf(const ConvProblem& problem, const HaloTile& tile);

/** How many rows of filters there are, each of an output; and words of all */
int64_t filterRows(const ConvProblem& problem, const HaloTile& tile);
int64_t filterWords(const ConvProblem& problem, const HaloTile& tile, const Grid& grid);

/** How a plan takes the filters: their words, then the inverse of each row's scale. */
FilterForm formOf(const ConvProblem& problem, const Plan& plan);

/** Predicted time of a kernel of kTiles[tile] in milliseconds, whether or not it fits, `cluster` blocks a cluster. */
double milliseconds(const GpuRequest& request, int tile, const Grid& grid, int cluster, const Model& model = kModel);

/** Only for what is not refused. */
Plan planHalo(const GpuRequest& request);

}  // namespace warpconv::cuda::halo
