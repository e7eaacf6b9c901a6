#pragma once

#include "cuda/shuffle/launches.h"

namespace warpconv::cuda {

/**
 * What a block owns in the forms with several filters a thread: output channels `first` … of a group of one image, and
 * one item for each warp. Blocks are numbered by their items fastest, then the output channels, then group, then n.
 */
struct FilterBlock {
  unsigned firstItem;
  int first, group, n;

  __device__ FilterBlock(const Shape& x, unsigned warpItems, int filters) {
    const unsigned itemBlocks = (warpItems + kShuffleWarps - 1) / kShuffleWarps;
    const unsigned filterBlocks = (x.groupOutputs + filters - 1) / filters;
    const unsigned block = blockIdx.x / itemBlocks;
    firstItem = blockIdx.x % itemBlocks * kShuffleWarps;
    first = block % filterBlocks * filters;
    group = block / filterBlocks % x.groups;
    n = block / filterBlocks / x.groups;
  }

  __device__ const float* maps(const ShuffleCall& call) const {
    const Shape& x = call.shape;
    return call.tensors.input + (n * x.c + group * x.groupInputs) * x.h * x.w;
  }

  /** What the sums of the block's i-th filter begin with. */
  __device__ float bias(const ShuffleCall& call, int i) const {
    if (call.epilogue.bias == nullptr || first + i >= call.shape.groupOutputs) return 0.0f;
    return call.epilogue.bias[group * call.shape.groupOutputs + first + i];
  }

  /**
   * The filters of `channels` input maps from `firstC` on, to shared memory as [channel][r][s][filter]. Beyond the
   * group's last filter it repeats that one, whose sums are not stored.
   */
  template <int Filters>
  __device__ void stage(float* shared, const ShuffleCall& call, int firstC, int channels) const {
    const Shape& x = call.shape;
    const int taps = x.r * x.s;
    for (int i = threadIdx.x; i < channels * taps * Filters; i += kShuffleThreads) {
      const int k = group * x.groupOutputs + min(first + i % Filters, x.groupOutputs - 1);
      shared[i] = call.weight[(k * x.groupInputs + firstC) * taps + i / Filters];
    }
  }
};

}  // namespace warpconv::cuda
