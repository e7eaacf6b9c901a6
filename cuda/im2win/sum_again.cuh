#pragma once

#include "cuda/im2win/places.cuh"

namespace warpconv::cuda::im2win {

/**
 * Sums those of a block's staged sums again, by multiply-adds in the order of the reduction, that are not finite: see
 * TensorSums for why they may be wrong.
 */
template <GemmTile kTile>
__device__ void sumNonFiniteAgain(const GemmArguments& x, const BlockPlace& place, float* shared, int firstStep,
                                  int steps) {
  constexpr int kPatch = kTile.blockM * kTile.outputPitch();
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile.blockM * kTile.blockN; i += kTile.threads()) {
    const int output = place.m0 + i / kTile.blockN;
    float* const parts = shared + i / kTile.blockN * kTile.outputPitch() + i % kTile.blockN;
    float staged = 0.0f;
    for (int part = 0; part < kTile.partsK; ++part) staged += parts[part * kPatch];
    if (isfinite(staged) || output >= x.groupOutputs) continue;
    const Window window = windowAt(x, place.group, place.n0 + i % kTile.blockN);
    const float* filter = x.filter + place.group * x.filterGroupStride + firstStep * x.filterPitch + output;
    float sum = 0.0f;
#pragma unroll 1
    for (const WindowStep *step = x.order + firstStep, *end = step + steps; step != end; ++step) {
      if ((step->bits & window.outside) == 0) sum = fmaf(*filter, window.first[step->offset], sum);
      filter += x.filterPitch;
    }
    for (int part = 0; part < kTile.partsK; ++part) parts[part * kPatch] = part == 0 ? sum : 0.0f;
  }
}

}  // namespace warpconv::cuda::im2win
