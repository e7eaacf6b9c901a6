#pragma once

#include <cstdint>

#include "cuda/depthwise/tile.h"

namespace warpconv::cuda {

struct GpuRequest;

namespace depthwise {

/** What a launch needs beside the problem. */
struct Plan {
  /** Of kTiles */
  int tile;
  /** Output rows of a thread */
  int run;
  /** Threads that have the channels of a slice */
  int lanes;
  /** Strips of an output row, slices of the channels, and runs of a map */
  int strips, slices, runs;
  int64_t blocks;
  double milliseconds;
};

/** The fastest plan. The request must be one that `refuseDepthwise` does not refuse. */
Plan planDepthwise(const GpuRequest& request);

/** The plan of kTiles[tile] in which a thread computes `run` output rows; one row where the tile has no runs. */
Plan planRun(const GpuRequest& request, int tile, int run);

}  // namespace depthwise
}  // namespace warpconv::cuda
