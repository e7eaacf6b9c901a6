#include <cmath>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/vector_loops/vector_loops.h"

namespace warpconv::operators {

void normalize(const NormalizeStep& step, const float* scale, const float* shift, const float* input, float* output,
               const RunContext& context) {
  const VectorLoops& loops = vectorLoops(context.isa);
  const auto count = static_cast<double>(step.count);
  std::vector<float> ones, zeros;
  if (scale == nullptr) ones.assign(static_cast<size_t>(step.groups * step.channels), 1.0f), scale = ones.data();
  if (shift == nullptr) zeros.assign(static_cast<size_t>(step.groups * step.channels), 0.0f), shift = zeros.data();
  const auto normalizeRow = [&](const float* from, int64_t firstChannel, float* to) {
    // Squares of what is left beside a float close to the mean are as good as beside the mean itself.
    const auto mean = static_cast<float>(loops.sum(from, step.count) / count);
    const double variance = loops.sumOfSquares(from, step.count, mean) / count;
    const auto factor = static_cast<float>(1.0 / std::sqrt(variance + step.epsilon));
    const float* scales = scale + firstChannel;
    const float* shifts = shift + firstChannel;
    if (step.inner == 1) return loops.normalize(from, mean, factor, scales, shifts, to, step.count);
    for (int64_t c = 0; c < step.channels; ++c) {
      loops.rescale(from + c * step.inner, mean, factor * scales[c], shifts[c], to + c * step.inner, step.inner);
    }
  };
  forEachRange(context, step.rows, step.count, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      normalizeRow(input + row * step.count, row % step.groups * step.channels, output + row * step.count);
    }
  });
}

}  // namespace warpconv::operators
