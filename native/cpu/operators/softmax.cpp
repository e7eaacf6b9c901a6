#include <cmath>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

void softmaxOne(const SoftmaxStep& step, const float* from, float* to) {
  const int64_t stride = step.inner;
  float most = from[0];
  for (int64_t i = 1; i < step.reduced; ++i) most = from[i * stride] > most ? from[i * stride] : most;
  double sum = 0;
  for (int64_t i = 0; i < step.reduced; ++i) sum += double{std::exp(from[i * stride] - most)};
  const auto logarithm = static_cast<float>(std::log(sum));
  for (int64_t i = 0; i < step.reduced; ++i) {
    const float x = from[i * stride] - most;
    to[i * stride] = step.logarithm ? x - logarithm : static_cast<float>(double{std::exp(x)} / sum);
  }
}

}  // namespace

void softmax(const SoftmaxStep& step, const float* input, float* output, const RunContext& context) {
  if (step.reduced == 0) return;
  forEachRange(context, step.outer * step.inner, step.reduced, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i / step.inner * step.reduced * step.inner + i % step.inner;
      softmaxOne(step, input + offset, output + offset);
    }
  });
}

}  // namespace warpconv::operators
