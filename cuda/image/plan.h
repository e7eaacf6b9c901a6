#pragma once

#include "cuda/algorithm.h"
#include "cuda/image/arguments.h"

namespace warpconv::cuda::image {

/** What a request comes down to. */
struct Plan {
  /** Of kTiles */
  int tile;
  int64_t blocks;
  int sharedBytes;
  double milliseconds;
};

/** How filters lie, and patches and tiles of the problem's extents: all but addresses, types and activation. */
Arguments argumentsOf(const ConvProblem& problem);

FilterForm formOf(const ConvProblem& problem);

/** The fastest plan. The request must be one that `refuseImage` does not refuse. */
Plan planImage(const GpuRequest& request);
/** That of kTiles[tile]. Its filters must divide filterRows. */
Plan planTile(const GpuRequest& request, int tile);

/** Dynamic shared memory: filters and biases in order, pairs of windows, and a patch. */
int64_t sharedBytes(const ConvProblem& problem);

}  // namespace warpconv::cuda::image
