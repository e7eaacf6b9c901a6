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

/** Writes the first `count` of N adjacent outputs, at once where a row's outputs allow it. */
template <int N>
__device__ inline void storeOutputs(float* to, const float (&y)[N], int count, int storeWidth) {
  if (N == 4 && storeWidth == 4) {
    if (count > 0) *reinterpret_cast<float4*>(to) = make_float4(y[0], y[1], y[N - 2], y[N - 1]);
  } else if (storeWidth >= 2) {
#pragma unroll
    for (int o = 0; o < N; o += 2) {
      if (o < count) *reinterpret_cast<float2*>(to + o) = make_float2(y[o], y[o + 1]);
    }
  } else {
#pragma unroll
    for (int o = 0; o < N; ++o) {
      if (o < count) to[o] = y[o];
    }
  }
}

}  // namespace warpconv::cuda
