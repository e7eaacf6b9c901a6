#pragma once

#include "cuda/epilogue.cuh"

namespace warpconv::cuda {

/** Sums that begin with the bias are outputs already where nothing else is to be done. */
__device__ inline bool isFinished(const Epilogue& epilogue) {
  return epilogue.residual == nullptr && epilogue.activation.kind == ActivationKind::none;
}

/**
 * Calls finishRow(m, row m) for every row of y. The rows take turns in y[0], so that the code of all activations is
 * there once, not M times, and y stays in registers.
 */
template <int M, int N, typename FinishRow>
__device__ inline void finishInTurn(float (&y)[M][N], const FinishRow& finishRow) {
#pragma unroll 1
  for (int m = 0; m < M; ++m) {
    finishRow(m, y[0]);
    float first[N];
#pragma unroll
    for (int o = 0; o < N; ++o) first[o] = y[0][o];
#pragma unroll
    for (int i = 0; i + 1 < M; ++i) {
#pragma unroll
      for (int o = 0; o < N; ++o) y[i][o] = y[i + 1][o];
    }
#pragma unroll
    for (int o = 0; o < N; ++o) y[M - 1][o] = first[o];
  }
}

/** Writes the first `count` of N adjacent outputs, kWidth at a time, which divides a row's outputs. */
template <int kWidth, int N>
__device__ inline void storeOutputs(float* to, const float (&y)[N], int count) {
  constexpr int kStep = kWidth < N ? kWidth : N;
#pragma unroll
  for (int o = 0; o < N; o += kStep) {
    if (o >= count) continue;
    if constexpr (kStep == 4) {
      *reinterpret_cast<float4*>(to + o) = make_float4(y[o], y[o + 1], y[o + 2], y[o + 3]);
    } else if constexpr (kStep == 2) {
      *reinterpret_cast<float2*>(to + o) = make_float2(y[o], y[o + 1]);
    } else {
      to[o] = y[o];
    }
  }
}

}  // namespace warpconv::cuda
