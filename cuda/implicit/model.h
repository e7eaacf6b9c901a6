#pragma once

#include "cuda/implicit/tile.h"

namespace warpconv::cuda::implicit {

/** What the time of a kernel is predicted from, in cycles. */
struct Model {
  /** From a launch to the first stage */
  double begin;
  /** Of a chunk to a block that has its multiprocessor to itself, at least */
  double chunk;
  /** From the sums of a piece to its outputs; and what share of that others on the multiprocessor wait for */
  double piece, shared;
  /** For each doubling of a cluster */
  double cluster;
  /** Of the rate of copies in device memory */
  double shareOfBandwidth;
  /** That a multiprocessor takes for a chunk of each tile, its blocks together */
  double chunks[kTileCount];
};

/**
 * Fitted to half of 1,596 times of an H200: every tile with 1, 2, 4 and 8 blocks a cluster on 35 layers, most of them
 * of ResNet-50, VGG-16 and MobileNetV2, at batch 1 and 128, in FP16 and TF32 on random data. On all of them the kernels
 * that it chooses are 3.2 % slower than the fastest on average, and 30 % at most. A chunk of TF32 takes as long as one
 * of halves, and has half the channels.
 */
inline constexpr Model kModel{3850, 59, 373, 0.504, 362, 0.817, {1594, 1250, 729, 480, 485, 369, 258}};

}  // namespace warpconv::cuda::implicit
