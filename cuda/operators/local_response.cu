#include <algorithm>

#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

struct Channels {
  int elements;
  FastDivisor byInner, byChannel;
  int channels, inner, before, after;
  float alpha, beta, k;
};

/** Thread t of the grid owns element t = (n * C + c) * inner + i, and reads those of the channels around c. */
__global__ void __launch_bounds__(kThreads) localResponseKernel(Channels x, const float* input, float* output) {
  beginStep();
  const int element = static_cast<int>(pieceOfThread());
  if (static_cast<unsigned>(element) >= static_cast<unsigned>(x.elements)) return;
  // channel = element / inner % C
  int channel = x.byInner.quotient(element);
  x.byChannel.divide(channel);
  const int first = max(0, channel - x.before), last = min(x.channels - 1, channel + x.after);
  float sum = 0.0f;
  for (int c = first; c <= last; ++c) {
    const float value = input[element + (c - channel) * x.inner];
    sum += value * value;
  }
  output[element] = input[element] * powf(x.k + x.alpha * sum, -x.beta);
}

}  // namespace

Status localResponse(const LocalResponseStep& step, const float* input, float* output, cudaStream_t stream) {
  const int64_t elements = step.n * step.channels * step.inner;
  if (elements == 0) return {};
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  // A window of any size reaches no further than all channels.
  const int64_t before = std::min(step.channels, (step.size - 1) / 2), after = std::min(step.channels, step.size / 2);
  const Channels x{narrow(elements),
                   FastDivisor(narrow(step.inner)),
                   FastDivisor(narrow(step.channels)),
                   narrow(step.channels),
                   narrow(step.inner),
                   narrow(before),
                   narrow(after),
                   static_cast<float>(step.alpha / static_cast<double>(step.size)),
                   static_cast<float>(step.beta),
                   static_cast<float>(step.k)};
  return launch("localResponse", localResponseKernel, gridFor(elements), stream, x, input, output);
}

}  // namespace warpconv::cuda::operators
