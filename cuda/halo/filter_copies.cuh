#pragma once

#include "cuda/halo/block.cuh"

namespace warpconv::cuda::halo {

/**
 * Brings a block's filters to shared memory, a group of taps to each slot. All threads go through the same steps, and
 * the first copies: products run on meanwhile, and the compiler lets them where threads do not part.
 */
template <HaloTile kTile>
class FilterCopies {
 public:
  /** Begins with as many groups as there are slots. */
  __device__ FilterCopies(const Arguments& x, const Place& place, const Rings<kTile>& rings)
      : x_(x), rings_(rings), copies_(kept(static_cast<int>(threadIdx.x == 0))), left_(place.chunks * x.groups) {
    const int block = place.group * x.outputBlocks + place.m0 / kWarpgroupM;
    from_ = reinterpret_cast<const char*>(x.filter) +
            (int64_t{block} * x.chunks + place.firstChunk) * x.groups * kGroupBytes;
#pragma unroll 1
    for (int slot = 0; slot < x.slots && left_ > 0; ++slot) copy(slot);
  }

  /** Once all are done with the group in a slot, brings the one that has it next. */
  __device__ void refill(const RingPlace& done) {
    if (left_ == 0) return;
    waitForPhase(rings_.filtersFree(done.stage), done.parity);
    copy(done.stage);
  }

 private:
  /** The plan's own, which no kernel before can be writing. */
  __device__ void copy(int slot) {
    const uint32_t barrier = rings_.filtersFull(slot);
    arriveExpecting(barrier, kTile.slotBytes(), copies_ != 0);
#pragma unroll
    for (int m = 0; m < kTile.warpgroupsM(); ++m) {
      copyBulk(rings_.slot(slot) + m * kGroupBytes, from_ + int64_t{m} * x_.chunks * x_.groups * kGroupBytes,
               kGroupBytes, barrier, copies_ != 0);
    }
    from_ += kGroupBytes;
    --left_;
  }

  const Arguments& x_;
  const Rings<kTile>& rings_;
  const char* from_;
  /** Whether this thread does */
  int copies_;
  int left_;
};

}  // namespace warpconv::cuda::halo
