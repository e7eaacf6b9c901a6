#include <cmath>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {

void normalize(const NormalizeStep& step, const float* scale, const float* shift, const float* input, float* output,
               const RunContext& context) {
  forEachRange(context, step.rows, step.count, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = input + row * step.count;
      float* to = output + row * step.count;
      const auto count = static_cast<double>(step.count);
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < step.count; ++i) sum += double{from[i]};
      const double mean = sum / count;
      for (int64_t i = 0; i < step.count; ++i) squares += (double{from[i]} - mean) * (double{from[i]} - mean);
      const double factor = 1.0 / std::sqrt(squares / count + step.epsilon);
      const int64_t first = row % step.groups * step.channels;
      for (int64_t i = 0; i < step.count; ++i) {
        const int64_t channel = first + i / step.inner;
        const float scaled =
            static_cast<float>((double{from[i]} - mean) * factor) * (scale == nullptr ? 1.0f : scale[channel]);
        to[i] = shift == nullptr ? scaled : scaled + shift[channel];
      }
    }
  });
}

}  // namespace warpconv::operators
