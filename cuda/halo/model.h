#pragma once

#include "cuda/halo/tile.h"
#include "cuda/planning/model_constants.h"

namespace warpconv::cuda::halo {

/** What the time of a kernel is predicted from, in cycles. */
struct Model {
  /** Of a block; of a kernel whose blocks leave the next one's no room beside them; and where positions are folded */
  double block, crowded, folded;
  /** Of a part of the elements: each time that loaders wait for what they hold, and 128 elements by 128 loaders */
  double fetch, elements;
  /** For an output of each thread, from its sum to its store; and for each doubling of a cluster */
  double output, cluster;
  /** How much longer clusters take in several rounds, of which each waits until all of its blocks have room */
  double rounds;
  /** How much longer groups take where two blocks share a multiprocessor */
  double shared;
  /** That a multiprocessor gets of the second cache in a cycle, where all ask */
  double cacheBytes;
  /** That a block of each tile takes for a group of taps */
  double groups[kTileCount];
};
inline ModelConstants constantsOf(Model& x) {
  ModelConstants constants{{"block", &x.block},     {"crowded", &x.crowded},   {"folded", &x.folded},
                           {"fetch", &x.fetch},     {"elements", &x.elements}, {"output", &x.output},
                           {"cluster", &x.cluster}, {"rounds", &x.rounds},     {"shared", &x.shared},
                           {"cacheBytes", &x.cacheBytes}};
  for (int i = 0; i < kTileCount; ++i) constants.push_back({std::string(kTiles[i].variant), &x.groups[i]});
  return constants;
}

/**
 * Fitted to 517 times of an H100: every tile with 1, 2, 3, 4, 6 and 8 blocks a cluster on the named layers of 3 x 3 filters
 * and larger ones, as far as they are within 2.2 times the fastest; `cacheBytes` is the measured rate of copies, and
 * `folded` the difference for conv1 and conv2 at batch 1. Against
 * bench/data/nvidia-h100-80gb-hbm3-2026-11-24-kernels.json it is off by 11 % near a layer's fastest kernel; the kernel it
 * chooses is 1.8 % slower than the fastest on average. The worst is res_28s2 at batch 16, 22 %: strides read more than
 * the model counts.
 */
inline constexpr Model kModel{180,  1790, 1700, 1250, 1090, 170,
                              1190, 1.09, 1.63, 24.5, {1345, 1420, 1315, 1315, 1195, 835, 545}};

}  // namespace warpconv::cuda::halo
