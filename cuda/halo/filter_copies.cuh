#pragma once

#include "cuda/halo/block.cuh"

namespace warpconv::cuda::halo {

/**
 * Brings a block's filters to shared memory, a group of taps to each slot, as slots are given back. They are the plan's
 * own, which no kernel before can be writing. All of it is one thread's.
 */
template <HaloTile kTile>
class FilterCopies {
 public:
  __device__ FilterCopies(const Arguments& x, const Place& place, const Rings<kTile>& rings)
      : x_(x), rings_(rings), left_(place.chunks * x.groups) {
    const int block = place.group * x.outputBlocks + place.m0 / kWarpgroupM;
    from_ = x.filter + (int64_t{block} * x.chunks + place.firstChunk) * x.groups * kGroupWords;
  }

  /** As many groups as there are slots, by a copy for each warpgroup's outputs: see Rings::firstFilters. */
  __device__ void beginFirst() {
    const int groups = min(x_.slots, left_);
    begin(rings_.firstFilters(), groups);
    ring_.parity ^= 1;
  }
  /** The others, each once its slot has been given back. */
  __device__ void beginRest() {
#pragma unroll 1
    while (left_ > 0) {
      waitForPhase(rings_.filtersFree(ring_.stage), ring_.parity ^ 1);
      begin(rings_.filtersFull(ring_.stage), 1);
      ring_.advance(x_.slots);
    }
  }

 private:
  /** So many groups, to the slots from the ring's on. */
  __device__ void begin(uint32_t barrier, int groups) {
    arriveExpecting(barrier, groups * kTile.slotBytes());
#pragma unroll
    for (int m = 0; m < kTile.warpgroupsM(); ++m) {
      copyBulk(rings_.slot(m, ring_.stage), from_ + int64_t{m} * x_.chunks * x_.groups * kGroupWords,
               groups * kGroupBytes, barrier);
    }
    from_ += groups * kGroupWords;
    left_ -= groups;
  }

  const Arguments& x_;
  const Rings<kTile>& rings_;
  int left_;
  const uint32_t* from_;
  RingPlace ring_;
};

}  // namespace warpconv::cuda::halo
