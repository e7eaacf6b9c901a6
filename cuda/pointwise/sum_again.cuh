#pragma once

#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/tensor_core/tensor_block.h"

namespace warpconv::cuda::pointwise {

/** The sum of a filter of a group at a pixel over channels from `channel` on, by multiply-adds in their order. */
__device__ inline float sumAgain(const Arguments& x, int group, int channel, int endChannel, int filter, int pixel) {
  const float* weight = x.weight + (group * x.groupInputs + channel) * x.weightPitch + filter;
  const float* input = x.input + inputOffset(x, pixel, group) + channel * x.inputArea;
  float sum = 0.0f;
#pragma unroll 1
  for (; channel < endChannel; ++channel) {
    sum = fmaf(*weight, *input, sum);
    weight += x.weightPitch, input += x.inputArea;
  }
  return sum;
}

/** Makes those of a block's staged sums again that are not finite: see TensorSums for why they may be wrong. */
template <TensorBlock block>
__device__ void sumNonFiniteAgain(const Arguments& x, const SplitTile& own, float* shared) {
  constexpr int patch = block.m * block.n;
#pragma unroll 1
  for (int i = threadIdx.x; i < patch; i += block.threads()) {
    float staged = 0.0f;
    for (int part = 0; part < block.parts; ++part) staged += shared[part * patch + i];
    const int filter = own.firstFilter + i / block.n;
    const int pixel = own.firstPixel + i % block.n;
    if (isfinite(staged) || filter >= x.groupOutputs || pixel >= x.pixels) continue;
    const float sum = sumAgain(x, own.group, own.firstChannel, own.endChannel, filter, pixel);
    for (int part = 0; part < block.parts; ++part) shared[part * patch + i] = part == 0 ? sum : 0.0f;
  }
}

}  // namespace warpconv::cuda::pointwise
