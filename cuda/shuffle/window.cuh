#pragma once

namespace warpconv::cuda {

/**
 * Row reuse: the output rows in flight while a thread walks down the input, for an F x F filter of stride T and C
 * adjacent output columns. A step takes T input rows and finishes one output row. In step i, input row
 * i * T + j (j < T, counted from the first row of the first window) is row m * T + j of the filter for output row i -
 * m, whose sums are sum[m]. Every index is known when compiling, so all of it stays in registers.
 */
template <int F, int T, int C>
struct RowWindow {
  static constexpr int kRows = (F + T - 1) / T;
  /** Input columns that C windows span */
  static constexpr int kColumns = (C - 1) * T + F;

  float sum[kRows][C];

  __device__ void clear(float start) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int o = 0; o < C; ++o) sum[m][o] = start;
    }
  }

  /** Adds the j-th input row of a step to every output row that needs it. */
  __device__ void add(int j, const float (&x)[kColumns], const float (&filter)[F * F]) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int r = m * T + j;
      if (r >= F) continue;
#pragma unroll
      for (int s = 0; s < F; ++s) {
#pragma unroll
        for (int o = 0; o < C; ++o) sum[m][o] = fmaf(x[o * T + s], filter[r * F + s], sum[m][o]);
      }
    }
  }

  __device__ const float (&finished() const)[C] { return sum[kRows - 1]; }

  /** Ends a step: the finished row makes room for a new one. */
  __device__ void next(float start) {
#pragma unroll
    for (int m = kRows - 1; m > 0; --m) {
#pragma unroll
      for (int o = 0; o < C; ++o) sum[m][o] = sum[m - 1][o];
    }
#pragma unroll
    for (int o = 0; o < C; ++o) sum[0][o] = start;
  }
};

}  // namespace warpconv::cuda
