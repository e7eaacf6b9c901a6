#include <cmath>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {

void localResponse(const LocalResponseStep& step, const float* input, float* output, const RunContext& context) {
  const auto alpha = static_cast<float>(step.alpha / static_cast<double>(step.size));
  const auto beta = static_cast<float>(step.beta);
  const auto k = static_cast<float>(step.k);
  forEachRange(context, step.n * step.channels, step.inner * step.size, [&](int64_t begin, int64_t end) {
    for (int64_t map = begin; map < end; ++map) {
      const int64_t channel = map % step.channels;
      const int64_t first = std::max<int64_t>(0, channel - (step.size - 1) / 2);
      const int64_t last = std::min(step.channels - 1, channel + step.size / 2);
      for (int64_t i = 0; i < step.inner; ++i) {
        float sum = 0;
        for (int64_t c = first; c <= last; ++c) {
          const float value = input[(map - channel + c) * step.inner + i];
          sum += value * value;
        }
        output[map * step.inner + i] = input[map * step.inner + i] * std::pow(k + alpha * sum, -beta);
      }
    }
  });
}

}  // namespace warpconv::operators
