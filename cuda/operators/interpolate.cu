#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/halves.cuh"
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

/** The same in words of neighbouring elements: thread t owns word t = (outer * count + i) * words + j. */
template <typename Type, int kWidth>
__global__ void __launch_bounds__(kThreads) interpolateHalvesKernel(Taps x, const uint16_t* input, uint16_t* output) {
  beginStep();
  const int word = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(word) >= static_cast<unsigned>(x.elements)) return;
  int j = word;
  int i = x.byInner.divide(j);
  const int outer = x.byCount.divide(i);
  const auto* map = reinterpret_cast<const Halves<kWidth>*>(input) + int64_t{outer} * x.axis * x.inner + j;
  float sums[kWidth] = {};
  for (int tap = i * x.taps; tap < (i + 1) * x.taps; ++tap) {
    float values[kWidth];
    widen<Type>(map[int64_t{x.positions[tap]} * x.inner], values);
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) sums[lane] = fmaf(x.weights[tap], values[lane], sums[lane]);
  }
  reinterpret_cast<Halves<kWidth>*>(output)[word] = narrow<Type>(sums);
}

/** Of words of so many elements */
Taps tapsOf(const InterpolateStep& step, const int32_t* positions, const float* weights, int width) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int64_t inner = step.inner / width;
  return {narrow(step.outer * step.count * inner),
          FastDivisor(narrow(inner)),
          FastDivisor(narrow(step.count)),
          narrow(step.axis),
          narrow(inner),
          narrow(step.taps),
          positions,
          weights};
}

}  // namespace

Status interpolate(const InterpolateStep& step, const int32_t* positions, const float* weights, const float* input,
                   float* output, cudaStream_t stream) {
  if (step.outer * step.count * step.inner == 0) return {};
  const Taps x = tapsOf(step, positions, weights, 1);
  return launch("interpolate", interpolateKernel, gridFor(x.elements), stream, x, input, output);
}

Status interpolateHalves(const InterpolateStep& step, const int32_t* positions, const float* weights, const void* input,
                         void* output, cudaStream_t stream) {
  if (step.outer * step.count * step.inner == 0) return {};
  const int width = widthOfHalves(step.inner, halvesTo(input), halvesTo(output));
  const Taps x = tapsOf(step, positions, weights, width);
  return withHalf(step.type, [&](auto type) {
    return withWidth(width, [&](auto like) {
      return launch("interpolate", interpolateHalvesKernel<decltype(type), decltype(like)::value>, gridFor(x.elements),
                    stream, x, static_cast<const uint16_t*>(input), static_cast<uint16_t*>(output));
    });
  });
}

}  // namespace warpconv::cuda::operators
