#include <cmath>

#include "cuda/fast_divisor.h"
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
  /** The first row and column that a padded element may not have any more */
  int endH, endW;
  bool countPadding;
};

/**
 * Thread i of the grid owns output i = (plane * P + p) * Q + q; neighbouring threads have neighbouring q. Taps outside
 * of the map are skipped. Averages are summed in double, tap by tap, as on the CPU, with the same result to the bit.
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
  int inside = 0, padded = 0;
  for (int r = 0; r < x.r; ++r) {
    const int h = top + r * x.dilationH;
    for (int s = 0; s < x.s; ++s) {
      const int w = left + s * x.dilationW;
      if (h < x.endH && w < x.endW) ++padded;
      if (h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
      const float value = map[h * x.w + w];
      ++inside;
      if (kMode == PoolStep::Mode::maximum) {
        most = value > most || value != value ? value : most;
      } else {
        sum += static_cast<double>(value);
      }
    }
  }
  const int divisor = x.countPadding ? padded : inside;
  const float average = divisor == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(divisor));
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
                  narrow(step.h + step.endPadding[0]),
                  narrow(step.w + step.endPadding[1]),
                  step.countPadding};
  const auto kernel =
      step.mode == PoolStep::Mode::maximum ? poolKernel<PoolStep::Mode::maximum> : poolKernel<PoolStep::Mode::average>;
  return launch("pool", kernel, gridFor(outputs), stream, x, input, output);
}

}  // namespace warpconv::cuda::operators
