#include <array>
#include <limits>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/vector_loops/vector_loops.h"

namespace warpconv::operators {
namespace {

using Mode = ReduceStep::Mode;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool isNaN(float x) { return x != x; }

/**
 * Whether x takes the place of what was the most extreme so far, and of its equal where the last one counts. NaN is
 * more extreme than any number. Without branches, so that loops become vector code.
 */
template <Mode kMode, bool kLast>
bool takes(float x, float best) {
  constexpr bool kIsMaximum = kMode == Mode::maximum || kMode == Mode::argMaximum;
  const int beats = kIsMaximum ? x > best : x < best;
  const int isEqual = kLast ? x == best : 0;
  const int isFirstNaN = kLast ? 1 : !isNaN(best);
  return (beats | isEqual | (isNaN(x) & isFirstNaN)) != 0;
}

double multiplyAll(const float* values, int64_t count) {
  double product = 1;
  for (int64_t i = 0; i < count; ++i) product *= double{values[i]};
  return product;
}

/** Of adjacent elements. */
float reduceRun(const ReduceStep& step, const VectorLoops& loops, const float* values) {
  switch (step.mode) {
    case Mode::sum: return static_cast<float>(loops.sum(values, step.reduced));
    case Mode::mean: return static_cast<float>(loops.sum(values, step.reduced) / static_cast<double>(step.reduced));
    case Mode::sumOfSquares: return static_cast<float>(loops.sumOfSquares(values, step.reduced, 0.0f));
    case Mode::product: return static_cast<float>(multiplyAll(values, step.reduced));
    case Mode::minimum: return loops.minimum(values, step.reduced);
    default: return loops.maximum(values, step.reduced);
  }
}

int64_t findInRun(const ReduceStep& step, const VectorLoops& loops, const float* values) {
  const bool isMaximum = step.mode == Mode::argMaximum;
  const float best = isMaximum ? loops.maximum(values, step.reduced) : loops.minimum(values, step.reduced);
  const auto is = [best](float value) { return value == best || (isNaN(best) && isNaN(value)); };
  // The caller may write to a feed in the meantime: then the extreme may be gone, and any place is as good.
  const int64_t end = step.reduced - 1;
  int64_t passed = 0;
  while (passed < end && !is(values[step.last ? end - passed : passed])) ++passed;
  return step.last ? end - passed : passed;
}

/** Columns that are reduced side by side, row after row */
constexpr int64_t kColumnsAtOnce = 256;
/** Rows that are summed in floats before they join a sum in double */
constexpr int64_t kRun = 64;

template <typename Add>
void sumColumns(const ReduceStep& step, const float* values, int64_t count, double divisor, float* output, Add add) {
  std::array<double, kColumnsAtOnce> total{};
  for (int64_t begin = 0; begin < step.reduced; begin += kRun) {
    std::array<float, kColumnsAtOnce> sum{};
    const int64_t end = std::min(step.reduced, begin + kRun);
    for (int64_t row = begin; row < end; ++row) {
      const float* from = values + row * step.inner;
      for (int64_t i = 0; i < count; ++i) sum[i] = add(sum[i], from[i]);
    }
    for (int64_t i = 0; i < count; ++i) total[i] += double{sum[i]};
  }
  for (int64_t i = 0; i < count; ++i) output[i] = static_cast<float>(total[i] / divisor);
}

void multiplyColumns(const ReduceStep& step, const float* values, int64_t count, float* output) {
  std::array<double, kColumnsAtOnce> product;
  product.fill(1);
  for (int64_t row = 0; row < step.reduced; ++row) {
    for (int64_t i = 0; i < count; ++i) product[i] *= double{values[row * step.inner + i]};
  }
  for (int64_t i = 0; i < count; ++i) output[i] = static_cast<float>(product[i]);
}

template <Mode kMode>
void extremeOfColumns(const ReduceStep& step, const float* values, int64_t count, float* output) {
  std::array<float, kColumnsAtOnce> best;
  best.fill(kMode == Mode::maximum ? -kInfinity : kInfinity);
  for (int64_t row = 0; row < step.reduced; ++row) {
    const float* from = values + row * step.inner;
    for (int64_t i = 0; i < count; ++i) best[i] = takes<kMode, false>(from[i], best[i]) ? from[i] : best[i];
  }
  std::copy_n(best.begin(), count, output);
}

template <Mode kMode, bool kLast>
void findInColumns(const ReduceStep& step, const float* values, int64_t count, int64_t* output) {
  std::array<float, kColumnsAtOnce> best;
  // As wide as the floats, so that both are chosen by one comparison.
  std::array<int32_t, kColumnsAtOnce> place{};
  std::copy_n(values, count, best.begin());
  for (int32_t row = 1; row < step.reduced; ++row) {
    const float* from = values + row * step.inner;
    for (int64_t i = 0; i < count; ++i) {
      const bool isTaken = takes<kMode, kLast>(from[i], best[i]);
      best[i] = isTaken ? from[i] : best[i];
      place[i] = isTaken ? row : place[i];
    }
  }
  std::copy_n(place.begin(), count, output);
}

/** `count` adjacent columns, of which the first is element `at` of the output. */
void reduceColumns(const ReduceStep& step, const float* values, int64_t count, void* output, int64_t at) {
  const auto plus = [](float sum, float x) { return sum + x; };
  const auto plusSquare = [](float sum, float x) { return sum + x * x; };
  float* to = static_cast<float*>(output) + at;
  int64_t* places = static_cast<int64_t*>(output) + at;
  switch (step.mode) {
    case Mode::sum: return sumColumns(step, values, count, 1, to, plus);
    case Mode::mean: return sumColumns(step, values, count, static_cast<double>(step.reduced), to, plus);
    case Mode::sumOfSquares: return sumColumns(step, values, count, 1, to, plusSquare);
    case Mode::product: return multiplyColumns(step, values, count, to);
    case Mode::maximum: return extremeOfColumns<Mode::maximum>(step, values, count, to);
    case Mode::minimum: return extremeOfColumns<Mode::minimum>(step, values, count, to);
    case Mode::argMaximum:
      return step.last ? findInColumns<Mode::argMaximum, true>(step, values, count, places)
                       : findInColumns<Mode::argMaximum, false>(step, values, count, places);
    case Mode::argMinimum:
      return step.last ? findInColumns<Mode::argMinimum, true>(step, values, count, places)
                       : findInColumns<Mode::argMinimum, false>(step, values, count, places);
  }
}

}  // namespace

void reduce(const ReduceStep& step, const float* input, void* output, const RunContext& context) {
  const VectorLoops& loops = vectorLoops(context.isa);
  const bool isArg = step.mode == Mode::argMaximum || step.mode == Mode::argMinimum;
  if (step.inner == 1) {
    forEachRange(context, step.outer, step.reduced, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* values = input + i * step.reduced;
        if (isArg) {
          static_cast<int64_t*>(output)[i] = findInRun(step, loops, values);
        } else {
          static_cast<float*>(output)[i] = reduceRun(step, loops, values);
        }
      }
    });
    return;
  }
  const int64_t blocks = (step.inner + kColumnsAtOnce - 1) / kColumnsAtOnce;
  forEachRange(context, step.outer * blocks, step.reduced * std::min(kColumnsAtOnce, step.inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t column = i % blocks * kColumnsAtOnce;
                   const int64_t outer = i / blocks;
                   reduceColumns(step, input + outer * step.reduced * step.inner + column,
                                 std::min(kColumnsAtOnce, step.inner - column), output, outer * step.inner + column);
                 }
               });
}

}  // namespace warpconv::operators
