#pragma once

#include "cuda/planning/model_constants.h"

namespace warpconv::cuda::pointwise {

/**
 * What the prediction is made of for kernels whose channels come step by step, as data, for bench/gpu/calibrate.ts to fit
 * to measured times. One for each family.
 */
struct GemmModel {
  /** Slots of a warp for a multiply-add of every lane, for each copy of a piece, and for each step */
  double multiply, copy, step;
  /** Seconds: of a step that nothing hides, of a block before its first step, and of a thread's storing of an output */
  double stepLatency, blockLatency, storeOutput;
  /** Warps of a multiprocessor whose stores do not slow each other down */
  double storingWarps;
  /** Seconds: of a launch in a graph, and of launching and synchronising clusters */
  double launch, cluster;
  /**
   * The part of the tensors' transfer that nothing hides, as shares of what the device memory's rate would take: of
   * tensors that lie in the L2 cache from one kernel to the next, and of larger ones
   */
  double cached, uncached;
  /** Seconds for each byte that blocks read of filters and pixels, each anew */
  double read = 0;
};

inline ModelConstants constantsOf(GemmModel& x) {
  return {{"multiply", &x.multiply},
          {"copy", &x.copy},
          {"step", &x.step},
          {"stepLatency", &x.stepLatency},
          {"blockLatency", &x.blockLatency},
          {"storeOutput", &x.storeOutput},
          {"storingWarps", &x.storingWarps},
          {"launch", &x.launch},
          {"cluster", &x.cluster},
          {"cached", &x.cached},
          {"uncached", &x.uncached},
          {"read", &x.read}};
}

}  // namespace warpconv::cuda::pointwise
