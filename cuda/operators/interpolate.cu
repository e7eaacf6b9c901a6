#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

struct Taps {
  int elements;
  FastDivisor byInner, byCount;
  int axis, inner, taps;
  const int32_t* positions;
  const float* weights;
};

/** Thread t of the grid owns output t = (outer * count + i) * inner + j. */
__global__ void __launch_bounds__(kThreads) interpolateKernel(Taps x, const float* input, float* output) {
  beginStep();
  const int element = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(element) >= static_cast<unsigned>(x.elements)) return;
  // j = t % inner, i = t / inner % count, outer = t / (inner * count)
  int j = element;
  int i = x.byInner.divide(j);
  const int outer = x.byCount.divide(i);
  const float* map = input + int64_t{outer} * x.axis * x.inner + j;
  float sum = 0.0f;
  for (int tap = i * x.taps; tap < (i + 1) * x.taps; ++tap) {
    sum = fmaf(x.weights[tap], map[int64_t{x.positions[tap]} * x.inner], sum);
  }
  output[element] = sum;
}

}  // namespace

Status interpolate(const InterpolateStep& step, const int32_t* positions, const float* weights, const float* input,
                   float* output, cudaStream_t stream) {
  const int64_t elements = step.outer * step.count * step.inner;
  if (elements == 0) return {};
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const Taps x{narrow(elements),
               FastDivisor(narrow(step.inner)),
               FastDivisor(narrow(step.count)),
               narrow(step.axis),
               narrow(step.inner),
               narrow(step.taps),
               positions,
               weights};
  return launch("interpolate", interpolateKernel, gridFor(elements), stream, x, input, output);
}

}  // namespace warpconv::cuda::operators
