#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"

namespace warpconv::cuda {

/**
 * Finishes sums by their filters' biases, and by their scales where `scale`, and writes the outputs. Of `pieces`,
 * `inverse(i)` and `bias(i)` are those of piece i's filter, `addResidual(i, outputs)` adds what lies where its outputs
 * go, and `write(i, outputs)` stores these.
 */
template <bool bounded, bool scale, int kWidth, int kCount>
__device__ inline void finishPieces(const AdjacentSums<kWidth> (&sums)[kCount], const BoundedActivation& activation,
                                    const auto& pieces) {
  AdjacentSums<kWidth> outputs[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float sum = sums[i].x[j];
      outputs[i].x[j] = scale ? fmaf(sum, pieces.inverse(i), pieces.bias(i)) : sum + pieces.bias(i);
    }
  }
  if constexpr (bounded) {
    clampAll(outputs, activation);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      pieces.addResidual(i, outputs[i]);
      activate(outputs[i], activation);
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) pieces.write(i, outputs[i]);
}

/**
 * Stores the outputs of pieces, step by step for all of them: with one or two warps a scheduler, instructions are
 * latency, and piece by piece a block of 64 x 32 outputs took 0.8 us. Sums have scales where they are `scaled`.
 * `pieces.makeAgain(i, sums)` makes those of a piece again that are not finite: see TensorSums for why they may be
 * wrong, and lacksBits. With `bounded`, where isBounded, they are looked for, made again and stored again once all are
 * stored; others, for which that was not timed, before.
 */
template <bool bounded, bool scaled, int kWidth, int kCount>
__device__ inline void storePieces(AdjacentSums<kWidth> (&sums)[kCount], const BoundedActivation& activation,
                                   const auto& pieces) {
  if constexpr (bounded) finishPieces<bounded, scaled>(sums, activation, pieces);
  const bool finite = areFinite(sums);
  if (bounded && finite) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (scaled) {
#pragma unroll
      for (float& sum : sums[i].x) sum *= pieces.inverse(i);
    }
    if (!finite) pieces.makeAgain(i, sums[i]);
  }
  finishPieces<bounded, false>(sums, activation, pieces);
}

}  // namespace warpconv::cuda
