#pragma once

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/kernel/adjacent.cuh"

namespace warpconv::cuda {

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
    if (o < count) storeAdjacent<kStep>(to + o, y + o);
  }
}

}  // namespace warpconv::cuda
