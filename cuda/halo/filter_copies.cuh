#pragma once

#include "cuda/halo/block.cuh"

namespace warpconv::cuda::halo {

/**
 * By one thread: brings a block's filters to shared memory, a group of taps to each slot, as slots are given back. They
 * are the plan's own, which no kernel before can be writing.
 */
template <HaloTile kTile>
__device__ void bringFilters(const Arguments& x, const Place& place, const Rings<kTile>& rings) {
  const int block = place.group * x.outputBlocks + place.m0 / kWarpgroupM, count = place.chunks * x.groups;
  const uint32_t* from = x.filter + (int64_t{block} * x.chunks + place.firstChunk) * x.groups * kGroupWords;
  RingPlace ring;
#pragma unroll 1
  for (int group = 0; group < count; ++group, from += kGroupWords) {
    // Of a slot that has not been given back yet the phase before the first is over.
    waitForPhase(rings.filtersFree(ring.stage), ring.parity ^ 1);
    const uint32_t barrier = rings.filtersFull(ring.stage);
    arriveExpecting(barrier, kTile.slotBytes());
#pragma unroll
    for (int m = 0; m < kTile.warpgroupsM(); ++m) {
      copyBulk(rings.slot(ring.stage) + m * kGroupBytes, from + int64_t{m} * x.chunks * x.groups * kGroupWords,
               kGroupBytes, barrier);
    }
    ring.advance(x.slots);
  }
}

}  // namespace warpconv::cuda::halo
