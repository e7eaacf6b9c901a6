#pragma once

#include "cuda/depthwise/strip.cuh"
#include "cuda/kernel/half_pairs.cuh"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda::depthwise {

/**
 * F x F filters of stride T. A thread walks down the input of its strip with the sums of the output rows whose windows
 * hold the row at hand: a row is read once for all of them. Input row i of the run, counted from the first of its first
 * window, is row j = i % T of step i / T, and row m * T + j of the window of output row i / T - m, whose sums are
 * sum[m]: a step begins by taking over those of sum[m - 1]. Sums begin with the bias. The filter is in registers.
 * Columns and rows outside of the input load as zeros; output rows outside of the run are passed over, columns outside
 * of the output are not stored.
 */
template <typename Pair, int F, int T, int kColumns, int kAhead, int kResident>
__global__ void __launch_bounds__(kThreads, kResident) stripsKernel(Arguments x) {
  constexpr int kRows = rowsInFlight(F, T), kInputs = inputColumns(F, T, kColumns);
  static_assert(kAhead % T == 0);
  const Strip<kColumns> strip(x);
  if (strip.isEmpty(x.shape)) return;
  const float2 start = strip.bias(x);
  float2 filter[F * F];
#pragma unroll
  for (int i = 0; i < F * F; ++i) filter[i] = strip.filter(x, i);

  const int w = strip.firstQ * T - x.shape.padLeft;
  unsigned inside = 0;
#pragma unroll
  for (int i = 0; i < kInputs; ++i) {
    inside |= static_cast<unsigned>(static_cast<unsigned>(w + i) < static_cast<unsigned>(x.shape.w)) << i;
  }
  int h = strip.firstP * T - x.shape.padTop;
  const int inputRows = (strip.rows - 1) * T + F;
  const int endH = min(max(h + inputRows, 0), x.shape.h);
  const char* row = strip.input(x, h, w);
  const int64_t rowBytes = int64_t{x.shape.w} * x.inputPitch;
  const auto load = [&](auto& words) {
    const unsigned there = static_cast<unsigned>(h) < static_cast<unsigned>(endH) ? inside : 0;
#pragma unroll
    for (int i = 0; i < kInputs; ++i) words[i] = loadWordOrZero(row + i * x.inputPitch, there & 1u << i);
    ++h, row += rowBytes;
  };

  float2 sum[kRows][kColumns];
  // kAll: each of the output rows is of the run.
  const auto add = [&]<bool kAll>(const auto& input, int step, int j) {
#pragma unroll
    for (int m = kRows - 1; m >= 0; --m) {
      const int r = m * T + j;
      if (r >= F || (!kAll && static_cast<unsigned>(step - m) >= static_cast<unsigned>(strip.rows))) continue;
#pragma unroll
      for (int s = 0; s < F; ++s) {
#pragma unroll
        for (int o = 0; o < kColumns; ++o) {
          const float2 before = s > 0 || j > 0 ? sum[m][o] : m > 0 ? sum[m - 1][o] : start;
          sum[m][o].x = fmaf(input[o * T + s].x, filter[r * F + s].x, before.x);
          sum[m][o].y = fmaf(input[o * T + s].y, filter[r * F + s].y, before.y);
        }
      }
    }
  };

  waitForKernelsBefore();
  uint32_t ahead[kAhead][kInputs];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(ahead[i]);
  letNextKernelBegin();
#pragma unroll 1
  for (int first = 0; first * T < inputRows; first += kAhead / T) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int step = first + i / T;
      float2 input[kInputs];
#pragma unroll
      for (int c = 0; c < kInputs; ++c) input[c] = Pair::toFloats(ahead[i][c]);
      load(ahead[i]);
      if (step >= kRows - 1 && step < strip.rows) {
        add.template operator()<true>(input, step, i % T);
      } else {
        add.template operator()<false>(input, step, i % T);
      }
      if (i % T != (F - 1) % T) continue;
      const int p = step - (kRows - 1);
      if (static_cast<unsigned>(p) < static_cast<unsigned>(strip.rows)) {
        strip.template finish<Pair>(x, p, sum[kRows - 1]);
      }
    }
  }
}

}  // namespace warpconv::cuda::depthwise
