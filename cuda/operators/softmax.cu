#include <cmath>

#include "cuda/operators/lines.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

/**
 * Lines says which block has which lines, and which elements of a line a thread reads three times: for the maximum, for
 * the sum of the exponentials, and to write the result.
 */
__global__ void __launch_bounds__(Lines::kMostThreads)
    softmaxKernel(Lines lines, bool logarithm, const float* input, float* output) {
  beginStep();
  __shared__ double sums[Lines::kMostThreads];
  float* const maxima = reinterpret_cast<float*>(sums);
  const Lines::Place own = lines.place(static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const int64_t first = int64_t{own.row} * lines.length * lines.inner + own.column;
  const auto forEach = [&](const auto& body) {
    if (!own.exists) return;
    for (int i = own.worker; i < lines.length; i += lines.workers) body(first + int64_t{i} * lines.inner);
  };
  // NaN loses, and makes the sum NaN.
  const auto greater = [](float a, float b) { return b > a ? b : a; };
  float most = -INFINITY;
  forEach([&](int64_t at) { most = greater(most, input[at]); });
  most = joinWorkers(lines, own.worker, most, maxima, greater);
  double sum = 0;
  forEach([&](int64_t at) { sum += static_cast<double>(expf(input[at] - most)); });
  sum = joinWorkers(lines, own.worker, sum, sums, [](double a, double b) { return a + b; });
  if (logarithm) {
    const auto logarithmOfSum = static_cast<float>(log(sum));
    forEach([&](int64_t at) { output[at] = input[at] - most - logarithmOfSum; });
  } else {
    forEach([&](int64_t at) { output[at] = static_cast<float>(static_cast<double>(expf(input[at] - most)) / sum); });
  }
}

}  // namespace

Status softmax(const SoftmaxStep& step, const float* input, float* output, cudaStream_t stream) {
  if (step.outer == 0 || step.reduced == 0 || step.inner == 0) return {};
  const Lines lines = shareLines(step.outer, step.reduced, step.inner);
  return launch("softmax", softmaxKernel, gridFor(lines), stream, lines, step.logarithm, input, output);
}

}  // namespace warpconv::cuda::operators
