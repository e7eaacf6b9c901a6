#pragma once

#include "cuda/halo/block.cuh"

namespace warpconv::cuda::halo {

/** Filters of so many groups of taps of a block's from `first` on, to its slots from `slot` on. By one thread. */
template <HaloTile kTile>
__device__ void beginFilters(const Arguments& x, const Place& place, const Rings<kTile>& rings, int first, int groups,
                             int slot, uint32_t barrier) {
  const int block = place.group * x.outputBlocks + place.m0 / kWarpgroupM;
  const uint32_t* const from =
      x.filter + ((int64_t{block} * x.chunks + place.firstChunk) * x.groups + first) * kGroupWords;
  arriveExpecting(barrier, groups * kTile.slotBytes());
#pragma unroll
  for (int m = 0; m < kTile.warpgroupsM(); ++m) {
    copyBulk(rings.slot(m, slot), from + int64_t{m} * x.chunks * x.groups * kGroupWords, groups * kGroupBytes, barrier);
  }
}

/**
 * Fills a block's slots, by one copy for each warpgroup's outputs. Filters are the plan's own, which no kernel before
 * can be writing: the earlier they come, the less they are in the way of what the kernel before ends with, its reads of
 * other blocks' sums.
 */
template <HaloTile kTile>
__device__ void beginFirstFilters(const Arguments& x, const Place& place, const Rings<kTile>& rings) {
  beginFilters(x, place, rings, 0, min(x.slots, place.chunks * x.groups), 0, rings.firstFilters());
}

/** By the same thread: brings the others, each group once its slot has been given back. */
template <HaloTile kTile>
__device__ void bringOtherFilters(const Arguments& x, const Place& place, const Rings<kTile>& rings) {
  RingPlace ring;
#pragma unroll 1
  for (int group = x.slots; group < place.chunks * x.groups; ++group) {
    waitForPhase(rings.filtersFree(ring.stage), ring.parity);
    beginFilters(x, place, rings, group, 1, ring.stage, rings.filtersFull(ring.stage));
    ring.advance(x.slots);
  }
}

}  // namespace warpconv::cuda::halo
