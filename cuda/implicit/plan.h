#pragma once

#include <vector>

#include "cuda/algorithm.h"
#include "cuda/implicit/model.h"
#include "cuda/implicit/tile.h"

namespace warpconv::cuda::implicit {

/** What a block has shared memory for. */
struct Rooms {
  int stages = 1;
  /** log2 of the boxes of outputs for each warpgroup, where blocks persist */
  int heldBoxes = 0;
};

/** What a request comes down to. */
struct Plan {
  /** Of kTiles */
  int tile = 0;
  /** Blocks of a cluster, each of which sums over some of the chunks */
  int split = 1;
  /** Of calls without a residual, and with one */
  Rooms rooms{}, residualRooms{};
  /** Blocks take tile after tile: where outputs are stored by boxes */
  bool persists = false;
  int64_t blocks = 1;
  double milliseconds = 0;
};

/** One of kTiles, with the width of the problem's elements. */
ImplicitTile tileOf(const ConvProblem& problem, int index);

/** Of the sum: taps times chunks of the input's channels. */
int64_t chunksOf(const ConvProblem& problem);

/** Output channels rounded up to kFilterRows. */
int64_t filterRows(const ConvProblem& problem);

FilterForm formOf(const ConvProblem& problem);

int64_t tileCount(const ConvProblem& problem, const ImplicitTile& tile);

/** Whether there are kernels of the tile for the problem's format. */
bool canTake(const ImplicitTile& tile, const ConvProblem& problem);

/** Shared memory of a block. */
int sharedBytes(const ImplicitTile& tile, const Plan& plan, const Rooms& rooms);
/** The most that sharedBytes of any plan comes to */
int mostSharedBytes(const GpuTraits& traits);

/** With that many blocks a cluster, at most as many as there are chunks. Only for tiles that `canTake` the problem. */
Plan planTile(const GpuRequest& request, int tile, int split, const Model& model = kModel);

/** Only for what is not refused. */
Plan planImplicit(const GpuRequest& request);

}  // namespace warpconv::cuda::implicit
