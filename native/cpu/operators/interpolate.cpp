#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {

void interpolate(const InterpolateStep& step, const float* input, float* output, const RunContext& context) {
  forEachRange(context, step.outer * step.count, step.inner * step.taps, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* map = input + row / step.count * step.axis * step.inner;
      const auto first = static_cast<size_t>(row % step.count * step.taps);
      for (int64_t i = 0; i < step.inner; ++i) {
        float sum = 0;
        for (size_t t = first; t < first + static_cast<size_t>(step.taps); ++t) {
          sum += static_cast<float>(step.weights[t]) * map[step.positions[t] * step.inner + i];
        }
        output[row * step.inner + i] = sum;
      }
    }
  });
}

}  // namespace warpconv::operators
