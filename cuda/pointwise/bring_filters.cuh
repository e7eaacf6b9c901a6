#pragma once

#include "cuda/async_copy.cuh"
#include "cuda/phase_barrier.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/tiles.h"

namespace warpconv::cuda::pointwise {

/** Begins to bring the filters of the block's channels: they are the plan's own. By one thread. */
__device__ inline void bringFilters(const Arguments& x, const SplitTile& own, HalvesLayout layout,
                                    uint32_t shared, int bytes, uint32_t barrier) {
  const int steps = (x.groupInputs + HalvesLayout::kStepChannels - 1) / HalvesLayout::kStepChannels;
  const int tile = own.group * x.filterTiles + own.firstFilter / layout.filters;
  const int64_t firstStep = int64_t{tile} * steps + own.firstChannel / HalvesLayout::kStepChannels;
  arriveExpecting(barrier, bytes);
  copyBulk(shared, x.halves + firstStep * (layout.stepBytes() / 4), bytes, barrier);
}

}  // namespace warpconv::cuda::pointwise
