#include <limits>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

using Mode = ReduceStep::Mode;

bool isNaN(float x) { return x != x; }

float reduceOne(const ReduceStep& step, const float* values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  double sum = 0, squares = 0, product = 1;
  float least = kInfinity, most = -kInfinity;
  for (int64_t i = 0; i < step.reduced; ++i) {
    const float value = values[i * step.inner];
    sum += double{value};
    squares += double{value} * double{value};
    product *= double{value};
    least = value < least || isNaN(value) ? value : least;
    most = value > most || isNaN(value) ? value : most;
  }
  switch (step.mode) {
    case Mode::sum: return static_cast<float>(sum);
    case Mode::mean: return static_cast<float>(sum / static_cast<double>(step.reduced));
    case Mode::sumOfSquares: return static_cast<float>(squares);
    case Mode::product: return static_cast<float>(product);
    case Mode::minimum: return least;
    default: return most;
  }
}

/** The place of the extreme element, NaN being more extreme than any number. */
int64_t findExtreme(const ReduceStep& step, const float* values) {
  int64_t place = 0;
  for (int64_t i = 1; i < step.reduced; ++i) {
    const float value = values[i * step.inner];
    const float best = values[place * step.inner];
    const bool beats = step.mode == Mode::argMaximum ? value > best : value < best;
    const bool equals = value == best || (isNaN(value) && isNaN(best));
    if ((isNaN(value) && !isNaN(best)) || beats || (step.last && equals)) place = i;
  }
  return place;
}

}  // namespace

void reduce(const ReduceStep& step, const float* input, void* output, const RunContext& context) {
  const bool isArg = step.mode == Mode::argMaximum || step.mode == Mode::argMinimum;
  forEachRange(context, step.outer * step.inner, step.reduced, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* values = input + i / step.inner * step.reduced * step.inner + i % step.inner;
      if (isArg) {
        static_cast<int64_t*>(output)[i] = findExtreme(step, values);
      } else {
        static_cast<float*>(output)[i] = reduceOne(step, values);
      }
    }
  });
}

}  // namespace warpconv::operators
