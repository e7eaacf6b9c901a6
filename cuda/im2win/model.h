#pragma once

#include "cuda/planning/model_constants.h"

namespace warpconv::cuda::im2win {

/** What the time of one kind of tiles is predicted from. */
struct Model {
  /** Microseconds: of a kernel in a graph, beside what follows; of clusters; and of a kernel that sums splits */
  double kernel, cluster, splitSum;
  /** Issue slots of a warp: for a multiply-add of every lane, or 16 x 8 x 8 of them on tensor cores */
  double multiply;
  /** For a 16-byte load of operands, a copy of one window element and of four filter elements, and a tile */
  double operand, windowCopy, filterCopy, loop;
  /** Cycles that a tile's barrier and first loads keep a warp waiting */
  double tileLatency;
  /** Of the shorter of latency and throughput, what the longer one does not hide */
  double notHidden;
  /** Slots for an output, from its sum to its store */
  double output;
  /**
   * Of the device memory's bandwidth: what tensors are moved with, more than all of it where they lie in the L2 cache,
   * and what all tiles are copied with
   */
  double moved, copied;
  /** Cycles that a block takes beside its tiles, before the first of them and after the last */
  double block = 0;
};
inline ModelConstants constantsOf(Model& x) {
  return {{"kernel", &x.kernel},         {"cluster", &x.cluster},         {"splitSum", &x.splitSum},
          {"multiply", &x.multiply},     {"operand", &x.operand},         {"windowCopy", &x.windowCopy},
          {"filterCopy", &x.filterCopy}, {"loop", &x.loop},               {"tileLatency", &x.tileLatency},
          {"notHidden", &x.notHidden},   {"output", &x.output},           {"moved", &x.moved},
          {"copied", &x.copied},         {"block", &x.block}};
}

/** By what multiplies */
struct Models {
  Model fma, tensor, warpgroup;
};

/**
 * `fma` and `tensor` were fitted to some 3,000 times of an H200: 21 tiles with up to seven splits on the named layers at
 * batch 1 and 128. `warpgroup` was fitted to 373 times of an H100. Against
 * bench/data/nvidia-h100-80gb-hbm3-2026-11-24-kernels.json they are off by 29 % (fma), 43 % (tensor) and 17 % near a
 * layer's fastest kernel; the kernel they choose is 1.5 % slower than the fastest on average.
 */
inline constexpr Models kModels{
    .fma = {1.21, 0.232, 4.4, 1.04, 0.308, 14.6, 21.4, 189, 66.7, 0.129, 65.6, 1.18, 0.564},
    .tensor = {1.42, 0.771, 2.8, 18.4, 0, 14, 11.2, 219, 0, 0.397, 65.9, 0.317, 0.563},
    .warpgroup = {0, 0.476, 6, 9.64, 0, 11.2, 32.4, 0, 0, 1, 35.2, 0.557, 0.9, 3240},
};

}  // namespace warpconv::cuda::im2win
