#include <cmath>

#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

/** A PoolStep in the 32-bit integers that kernels compute with. */
struct Windows {
  int outputs;
  FastDivisor byColumn, byRow;
  int h, w, r, s;
  int strideH, strideW, dilationH, dilationW, padTop, padLeft;
  FastDivisor byDilationH, byDilationW;
  /** The first row and column that a padded element may not have any more */
  int endH, endW;
  bool countPadding;
};

/** How many of a window's taps along an axis lie before `end`: it begins at `first`, which may be negative. */
__device__ int tapsBefore(int end, int first, int taps, int dilation, FastDivisor byDilation) {
  return first >= end ? 0 : min(taps, byDilation.quotient(end - first + dilation - 1));
}

/**
 * Thread i of the grid owns output i = (plane * P + p) * Q + q; neighbouring threads have neighbouring q. Taps outside
 * of the map are not looked at: dilation and padding may put 2^60 of them there. Averages are summed in double, tap by tap, as on the CPU, with the same result to the bit.
 */
template <PoolStep::Mode kMode>
__global__ void __launch_bounds__(kThreads) poolKernel(Windows x, const float* input, float* output) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.outputs)) return;
  // q = i % Q, p = i / Q % P, plane = i / (P * Q)
  int q = i;
  int p = x.byColumn.divide(q);
  const int plane = x.byRow.divide(p);
  const int top = p * x.strideH - x.padTop, left = q * x.strideW - x.padLeft;
  const float* map = input + int64_t{plane} * x.h * x.w;
  float most = -INFINITY;
  double sum = 0;
  const auto rowsBefore = [&](int end) { return tapsBefore(end, top, x.r, x.dilationH, x.byDilationH); };
  const auto columnsBefore = [&](int end) { return tapsBefore(end, left, x.s, x.dilationW, x.byDilationW); };
  const int beginR = rowsBefore(0), endR = rowsBefore(x.h);
  const int beginS = columnsBefore(0), endS = columnsBefore(x.w);
  for (int r = beginR; r < endR; ++r) {
    const int row = (top + r * x.dilationH) * x.w + left;
    for (int s = beginS; s < endS; ++s) {
      const float value = map[row + s * x.dilationW];
      if (kMode == PoolStep::Mode::maximum) {
        most = value > most || value != value ? value : most;
      } else {
        sum += static_cast<double>(value);
      }
    }
  }
  const double divisor = x.countPadding
                             ? static_cast<double>(rowsBefore(x.endH)) * static_cast<double>(columnsBefore(x.endW))
                             : static_cast<double>(endR - beginR) * static_cast<double>(endS - beginS);
  const float average = divisor == 0 ? 0.0f : static_cast<float>(sum / divisor);
  output[i] = kMode == PoolStep::Mode::maximum ? most : average;
}

}  // namespace

Status pool(const PoolStep& step, const float* input, float* output, cudaStream_t stream) {
  const int64_t outputs = step.planes * step.p * step.q;
  if (outputs == 0) return {};
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const Windows x{narrow(outputs),
                  FastDivisor(narrow(step.q)),
                  FastDivisor(narrow(step.p)),
                  narrow(step.h),
                  narrow(step.w),
                  narrow(step.r),
                  narrow(step.s),
                  narrow(step.stride[0]),
                  narrow(step.stride[1]),
                  narrow(step.dilation[0]),
                  narrow(step.dilation[1]),
                  narrow(step.padding[0]),
                  narrow(step.padding[1]),
                  FastDivisor(narrow(step.dilation[0])),
                  FastDivisor(narrow(step.dilation[1])),
                  narrow(step.h + step.endPadding[0]),
                  narrow(step.w + step.endPadding[1]),
                  step.countPadding};
  const auto kernel =
      step.mode == PoolStep::Mode::maximum ? poolKernel<PoolStep::Mode::maximum> : poolKernel<PoolStep::Mode::average>;
  return launch("pool", kernel, gridFor(outputs), stream, x, input, output);
}

}  // namespace warpconv::cuda::operators
