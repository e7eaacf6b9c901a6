#pragma once

namespace warpconv::cuda {

/** The stages of a ring in shared memory, one after the other, and the parity of their phases: see phase_barrier.cuh.
 */
struct RingPlace {
  int stage = 0, parity = 0;

  __device__ void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }

  /** `count`: at most kStages, the stages of the ring */
  template <int kStages>
  __device__ void advanceBy(int count = 1) {
    stage += count;
    if (stage >= kStages) stage -= kStages, parity ^= 1;
  }
};

}  // namespace warpconv::cuda
