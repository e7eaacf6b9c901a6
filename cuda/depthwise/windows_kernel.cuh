#pragma once

#include "cuda/depthwise/strip.cuh"
#include "cuda/kernel/half_pairs.cuh"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda::depthwise {

/**
 * Any filter, stride and dilation, a row a run. A thread brings each tap of the filter once for its columns, and the
 * input under it, which neighbours and later taps find in the first cache. Taps outside of the input are passed over.
 */
template <typename Pair, int kColumns, int kResident>
__global__ void __launch_bounds__(kThreads, kResident) windowsKernel(Arguments x) {
  const Shape& s = x.shape;
  const Strip<kColumns> strip(x);
  if (strip.isEmpty(s)) return;
  float2 sum[kColumns];
  const float2 start = strip.bias(x);
#pragma unroll
  for (float2& one : sum) one = start;
  waitForKernelsBefore();
  for (int r = 0; r < s.r; ++r) {
    const int h = strip.firstP * s.strideH - s.padTop + r * s.dilationH;
    if (static_cast<unsigned>(h) >= static_cast<unsigned>(s.h)) continue;
    for (int tap = 0; tap < s.s; ++tap) {
      const float2 filter = strip.filter(x, r * s.s + tap);
      const int w = strip.firstQ * s.strideW - s.padLeft + tap * s.dilationW;
#pragma unroll
      for (int o = 0; o < kColumns; ++o) {
        const int column = w + o * s.strideW;
        const bool exists = o < strip.columns && static_cast<unsigned>(column) < static_cast<unsigned>(s.w);
        const float2 input = Pair::toFloats(loadWordOrZero(strip.input(x, h, column), exists));
        sum[o].x = fmaf(input.x, filter.x, sum[o].x);
        sum[o].y = fmaf(input.y, filter.y, sum[o].y);
      }
    }
  }
  letNextKernelBegin();
  strip.template finish<Pair>(x, 0, sum);
}

}  // namespace warpconv::cuda::depthwise
