#pragma once

#include "cuda/pointwise/arguments.h"

namespace warpconv::cuda::pointwise {

/**
 * What a block has, but in dynamic/. Block b has channels [r * splitChannels, …), r = b % split, of filter
 * tile b / split % filterTiles of group b / (split * filterTiles) % groups, of pixel tile b / (split * filterTiles *
 * groups).
 */
struct SplitTile {
  int rank, group, firstFilter, firstPixel, firstChannel, endChannel;
  /** Where its copy of the filters begins, in words */
  int copy;

  __device__ SplitTile(const Arguments& x, int filters, int pixels) {
    rank = static_cast<int>(blockIdx.x);
    int tile = x.bySplit.divide(rank);
    group = x.byFilterTiles.divide(tile);
    firstFilter = tile * filters;
    const int pixelTile = x.byGroups.divide(group);
    firstPixel = pixelTile * pixels;
    copy = (pixelTile & x.copyMask) * x.copyWords;
    firstChannel = rank * x.splitChannels;
    endChannel = min(firstChannel + x.splitChannels, x.groupInputs);
  }

  __device__ int steps(int channels) const { return max(endChannel - firstChannel + channels - 1, 0) / channels; }
};

}  // namespace warpconv::cuda::pointwise
