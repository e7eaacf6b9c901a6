#pragma once

#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/pointwise/halves_layout.h"
#include "cuda/pointwise/split_tile.cuh"

namespace warpconv::cuda::pointwise {

/**
 * Makes the two barriers from `barriers` on: the first for the filters of the block's channels, which are the plan's
 * own and begin to come to `shared`, and the second for one arrival. By one thread.
 */
__device__ inline void bringFilters(const Arguments& x, const SplitTile& own, HalvesLayout layout, uint32_t shared,
                                    int bytes, uint32_t barriers) {
  makePhaseBarrier(barriers, 1);
  makePhaseBarrier(barriers + sizeof(uint64_t), 1);
  publishBarriers();
  const int steps = (x.groupInputs + layout.stepChannels - 1) / layout.stepChannels;
  const int tile = own.group * x.filterTiles + own.firstFilter / layout.filters;
  const int64_t firstStep = int64_t{tile} * steps + own.firstChannel / layout.stepChannels;
  arriveExpecting(barriers, bytes);
  copyBulk(shared, x.halves + (own.copy + firstStep * (layout.stepBytes() / 4)), bytes, barriers);
}

}  // namespace warpconv::cuda::pointwise
