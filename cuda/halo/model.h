#pragma once

#include "cuda/halo/tile.h"
#include "cuda/model_constants.h"

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
 * Fitted to 517 times of an H100: every tile with 1, 2, 3, 4, 6 and 8 blocks a cluster at batch 1, up to 4 at 16 and 2
 * at 128, on the named layers of 3 x 3 filters and larger ones but for those of three channels, of which those up to
 * 2.2 times the fastest; cacheBytes is what copies alone were measured to get. What folding takes is the difference for
 * conv1 and conv2 at batch 1, the two layers that are folded.
 *
 * That was before tiles ended with the last output. Of the kernels since then (what bench/calibrate.ts prints first for
 * bench/data/nvidia-h100-80gb-hbm3-2026-11-24-kernels.json, layers at batch 1, 16 and 128), the 268 near a layer's
 * fastest are off by 11 %, and what is chosen is 1.8 % slower than the fastest on average: at batch 1 the fastest but
 * for conv3 and conv5 (4 and 5 %), at 128 within 6 %, and at 16 within 7 % but for res_28s2 (22 %, since strides read
 * more than is counted) and conv1 and conv2 (17 %), which are folded. Of those of 2026-11-25, which have less to skip,
 * they are off by 12 %, and what is chosen is 2.3 % slower than the fastest on average, 0.6 % at batch 1. Kernels have
 * become up to 9 % faster since those, by what they begin with; among the families `auto` took what was within 10 % of
 * the fastest on all 99 named layers.
 */
inline constexpr Model kModel{180,  1790, 1700, 1250, 1090, 170,
                              1190, 1.09, 1.63, 24.5, {1345, 1420, 1315, 1315, 1195, 835, 545}};

}  // namespace warpconv::cuda::halo
