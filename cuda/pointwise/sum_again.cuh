#pragma once

#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/tile_output.cuh"
#include "cuda/tensor_block.h"

namespace warpconv::cuda::pointwise {

/**
 * Makes those of a block's staged sums again that are not finite, by multiply-adds in the order of the channels: see
 * TensorSums for why they may be wrong.
 */
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
    const float* weight = x.weight + (own.group * x.groupInputs + own.firstChannel) * x.weightPitch + filter;
    const float* input = x.input + inputOffset(x, pixel, own.group) + own.firstChannel * x.inputArea;
    float sum = 0.0f;
#pragma unroll 1
    for (int channel = own.firstChannel; channel < own.endChannel; ++channel) {
      sum = fmaf(*weight, *input, sum);
      weight += x.weightPitch, input += x.inputArea;
    }
    for (int part = 0; part < block.parts; ++part) shared[part * patch + i] = part == 0 ? sum : 0.0f;
  }
}

}  // namespace warpconv::cuda::pointwise
