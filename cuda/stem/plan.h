#pragma once

#include <optional>

#include "cuda/algorithm.h"
#include "cuda/stem/model.h"
#include "cuda/stem/patch.h"

namespace warpconv::cuda::stem {

/** What a request comes down to. */
struct Plan {
  /** Of kTiles */
  int tile = 0;
  /** Blocks that have the same output channels, and tiles of each but the last */
  int64_t columns = 0, tilesEach = 0;
  /** Blocks that a multiprocessor has room for */
  int64_t held = 0;
  double milliseconds = 0;

  /** A block's next patch is brought while the one before is multiplied. */
  int patches() const { return tilesEach > 1 ? 2 : 1; }
};

/** Blocks of output channels, of all groups. */
int64_t outputBlocks(const ConvProblem& problem, const StemTile& tile);

/** Tiles of an image, in each direction */
int64_t tilesP(const ConvProblem& problem, const StemTile& tile);
int64_t tilesQ(const ConvProblem& problem);

/** Shared memory of a block: filters, staged sums and patches. */
int64_t sharedBytes(const ConvProblem& problem, const StemTile& tile, int patches);

/** The most that sharedBytes of a plan comes to */
int64_t mostSharedBytes(const GpuTraits& traits);

/** How many rows of filters there are, each of an output, padded to the tile; and words of all */
int64_t filterRows(const ConvProblem& problem, const StemTile& tile);
int64_t filterWords(const ConvProblem& problem, const StemTile& tile);

/** How a plan takes the filters: their words, then the inverse of each row's scale. */
FilterForm formOf(const ConvProblem& problem, const Plan& plan);

/** By kTiles[tile]; nothing where that does not fit. */
std::optional<Plan> planTile(const GpuRequest& request, int tile, const Model& model = kModel);

/** Only for what is not refused. */
Plan planStem(const GpuRequest& request);

}  // namespace warpconv::cuda::stem
