#include "cuda/operators/lines.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

struct Normalization {
  /** Rows one after the other, each a line of neighbouring elements */
  Lines lines;
  double epsilon;
  /** row % groups * channels is the first scale and shift of a row, which changes every `inner` elements */
  FastDivisor groups, inner;
  int channels;
  const float* scale;
  const float* shift;
};

/**
 * Lines says which block has which rows, and which elements of a row a thread reads three times: for the mean, for the
 * variance around it, and to write the result. Both sums are in double.
 */
__global__ void __launch_bounds__(Lines::kMostThreads)
    normalizeKernel(Normalization x, const float* input, float* output) {
  beginStep();
  __shared__ double sums[Lines::kMostThreads];
  const Lines& lines = x.lines;
  const Lines::Place own = lines.place(static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const int64_t first = int64_t{own.row} * lines.length;
  const auto forEach = [&](const auto& body) {
    if (!own.exists) return;
    for (int i = own.worker; i < lines.length; i += lines.workers) body(i, static_cast<double>(input[first + i]));
  };
  const auto plus = [](double a, double b) { return a + b; };
  const auto count = static_cast<double>(lines.length);
  double sum = 0;
  forEach([&](int, double element) { sum += element; });
  const double mean = joinWorkers(lines, own.worker, sum, sums, plus) / count;
  double squares = 0;
  forEach([&](int, double element) { squares += (element - mean) * (element - mean); });
  const double variance = joinWorkers(lines, own.worker, squares, sums, plus) / count;
  const double factor = 1.0 / sqrt(variance + x.epsilon);
  int group = own.row;
  x.groups.divide(group);
  forEach([&](int i, double element) {
    const int channel = group * x.channels + x.inner.quotient(i);
    const float scaled = static_cast<float>((element - mean) * factor) * (x.scale == nullptr ? 1.0f : x.scale[channel]);
    output[first + i] = x.shift == nullptr ? scaled : scaled + x.shift[channel];
  });
}

}  // namespace

Status normalize(const NormalizeStep& step, const float* scale, const float* shift, const float* input, float* output,
                 cudaStream_t stream) {
  if (step.rows == 0 || step.count == 0) return {};
  const Normalization x{shareLines(step.rows, step.count, 1),
                        step.epsilon,
                        FastDivisor(static_cast<int>(step.groups)),
                        FastDivisor(static_cast<int>(step.inner)),
                        static_cast<int>(step.channels),
                        scale,
                        shift};
  return launch("normalize", normalizeKernel, gridFor(x.lines), stream, x, input, output);
}

}  // namespace warpconv::cuda::operators
