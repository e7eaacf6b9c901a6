#include <cmath>

#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/windows.cuh"

namespace warpconv::cuda::operators {
namespace {

/**
 * Thread i of the grid owns output i = (plane * P + p) * Q + q; neighbouring threads have neighbouring q. Averages are
 * summed in double, tap by tap, as on the CPU, with the same result to the bit.
 */
template <PoolStep::Mode kMode>
__global__ void __launch_bounds__(kThreads) poolKernel(Windows x, const float* input, float* output) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(i) >= static_cast<unsigned>(x.outputs)) return;
  const Window window = x.at(i);
  const float* map = input + int64_t{window.plane} * x.h * x.w;
  float most = -INFINITY;
  double sum = 0;
  for (int r = window.beginR; r < window.endR; ++r) {
    const int row = (window.top + r * x.dilationH) * x.w + window.left;
    for (int s = window.beginS; s < window.endS; ++s) {
      const float value = map[row + s * x.dilationW];
      if (kMode == PoolStep::Mode::maximum) {
        most = value > most || value != value ? value : most;
      } else {
        sum += static_cast<double>(value);
      }
    }
  }
  const float average = window.divisor == 0 ? 0.0f : static_cast<float>(sum / window.divisor);
  output[i] = kMode == PoolStep::Mode::maximum ? most : average;
}

}  // namespace

Status pool(const PoolStep& step, const float* input, float* output, cudaStream_t stream) {
  const int64_t outputs = step.planes * step.p * step.q;
  if (outputs == 0) return {};
  const Windows x(step, outputs);
  const auto kernel =
      step.mode == PoolStep::Mode::maximum ? poolKernel<PoolStep::Mode::maximum> : poolKernel<PoolStep::Mode::average>;
  return launch("pool", kernel, gridFor(outputs), stream, x, input, output);
}

}  // namespace warpconv::cuda::operators
