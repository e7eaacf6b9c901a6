#include <algorithm>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

/** to = the sum of whole rows of `map`, each times its weight. */
void combineRows(const InterpolateStep& step, const float* weights, const int64_t* positions, const float* map,
                 float* __restrict to) {
  const float* first = map + positions[0] * step.inner;
  if (step.taps == 1 && weights[0] == 1.0f) {
    std::copy_n(first, step.inner, to);
    return;
  }
  if (step.taps == 1) {
    for (int64_t i = 0; i < step.inner; ++i) to[i] = weights[0] * first[i];
    return;
  }
  const float* second = map + positions[1] * step.inner;
  for (int64_t i = 0; i < step.inner; ++i) to[i] = weights[0] * first[i] + weights[1] * second[i];
  for (int64_t t = 2; t < step.taps; ++t) {
    const float* next = map + positions[t] * step.inner;
    for (int64_t i = 0; i < step.inner; ++i) to[i] += weights[t] * next[i];
  }
}

/** How often each element follows itself, where that is all that is done to a row, or 0. */
int64_t repeatsOf(const InterpolateStep& step) {
  if (step.taps != 1 || step.axis == 0 || step.count % step.axis != 0) return 0;
  const int64_t repeats = step.count / step.axis;
  for (int64_t i = 0; i < step.count; ++i) {
    const auto at = static_cast<size_t>(i);
    if (step.positions[at] != i / repeats || step.weights[at] != 1.0) return 0;
  }
  return repeats;
}

template <int64_t kRepeats>
void repeatTimes(const float* row, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < kRepeats; ++k) to[i * kRepeats + k] = row[i];
  }
}

void repeatElements(const float* row, int64_t count, int64_t repeats, float* __restrict to) {
  switch (repeats) {
    case 2: return repeatTimes<2>(row, count, to);
    case 4: return repeatTimes<4>(row, count, to);
    default:
      for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * repeats, repeats, row[i]);
  }
}

/** Elements of one row, each the sum of others of it. */
void combineElements(const InterpolateStep& step, const float* weights, const int64_t* positions, const float* row,
                     float* __restrict to) {
  if (step.taps == 1) {
    for (int64_t i = 0; i < step.count; ++i) to[i] = weights[i] * row[positions[i]];
    return;
  }
  if (step.taps == 2) {
    for (int64_t i = 0; i < step.count; ++i) {
      to[i] = weights[2 * i] * row[positions[2 * i]] + weights[2 * i + 1] * row[positions[2 * i + 1]];
    }
    return;
  }
  for (int64_t i = 0; i < step.count; ++i) {
    float sum = 0;
    for (int64_t t = i * step.taps; t < (i + 1) * step.taps; ++t) sum += weights[t] * row[positions[t]];
    to[i] = sum;
  }
}

}  // namespace

void interpolate(const InterpolateStep& step, const float* input, float* output, const RunContext& context) {
  const std::vector<float> weights(step.weights.begin(), step.weights.end());
  const int64_t* positions = step.positions.data();
  if (const int64_t repeats = step.inner == 1 ? repeatsOf(step) : 0; repeats > 0) {
    // All rows of the input as one.
    forEachRange(context, step.outer * step.axis, repeats, [&](int64_t begin, int64_t end) {
      repeatElements(input + begin, end - begin, repeats, output + begin * repeats);
    });
    return;
  }
  if (step.inner == 1) {
    forEachRange(context, step.outer, step.count * step.taps, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        combineElements(step, weights.data(), positions, input + i * step.axis, output + i * step.count);
      }
    });
    return;
  }
  forEachRange(context, step.outer * step.count, step.inner * step.taps, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t tap = i % step.count * step.taps;
      combineRows(step, weights.data() + tap, positions + tap, input + i / step.count * step.axis * step.inner,
                  output + i * step.inner);
    }
  });
}

}  // namespace warpconv::operators
