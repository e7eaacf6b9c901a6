#pragma once

#include "cuda/planning/model_constants.h"

namespace warpconv::cuda::stem {

/** What the time of a kernel is predicted from, in cycles. */
struct Model {
  double kernel;
  /** Of a tile: what it takes alone, and more for each word that a thread brings */
  double tile, word;
  /** Of a step: its wait, and products of 64 channels by a warpgroup, all of which a block's warpgroups wait for */
  double step, products;
  /** To store 64 channels, and how much more that is one by one */
  double outputs, single;
  /** What a warpgroup keeps others from: in a step by 64 channels, as it stores those, and for a word */
  double ownStep, ownOutputs, ownWord;
};
inline ModelConstants constantsOf(Model& x) {
  return {{"kernel", &x.kernel},     {"tile", &x.tile},       {"word", &x.word},
          {"step", &x.step},         {"products", &x.products}, {"outputs", &x.outputs},
          {"single", &x.single},     {"ownStep", &x.ownStep}, {"ownOutputs", &x.ownOutputs},
          {"ownWord", &x.ownWord}};
}

/**
 * Fitted to 128 times of an H100: every tile on the layers res_stem, conv1, conv2 and conv3 at batch 1, 2, 4 and so on
 * to 128, which it meets within 9 % (root of the mean square). The tile it chooses is the fastest that was measured, or
 * within 12 % of it, but for conv3 at 64 and 128, where it takes 25 to 27 % longer: outputs that no four of which can
 * be stored together cost small tiles more than is counted, once the second cache does not hold them.
 */
inline constexpr Model kModel{2436, 1953, 77.6, 134, 81.8, 3097, 1.32, 35.9, 1916, 273};

}  // namespace warpconv::cuda::stem
