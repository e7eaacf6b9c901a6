#include <array>
#include <cmath>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/operators/transpose.h"
#include "cpu/vector_loops/vector_loops.h"

namespace warpconv::operators {
namespace {

using Operation = ElementwiseStep::Operation;

/** Of adjacent elements. */
void softmaxRun(const SoftmaxStep& step, const VectorLoops& loops, const float* from, float* to) {
  const float most = loops.maximum(from, step.reduced);
  loops.expOfDifference(from, most, to, step.reduced);
  const double sum = loops.sum(to, step.reduced);
  if (step.logarithm) return loops.rescale(from, most, 1.0f, -static_cast<float>(std::log(sum)), to, step.reduced);
  const auto factor = static_cast<float>(1.0 / sum);
  for (int64_t i = 0; i < step.reduced; ++i) to[i] *= factor;
}

/** Columns that are done side by side, row after row */
constexpr int64_t kColumns = 256;

/** Of [reduced, inner], `inner` from row to row */
void softmaxColumns(const SoftmaxStep& step, int64_t inner, const VectorLoops& loops, const float* from, int64_t count,
                    float* to) {
  std::array<float, kColumns> most, difference, factor;
  std::array<double, kColumns> sum{};
  std::copy_n(from, count, most.begin());
  for (int64_t row = 1; row < step.reduced; ++row) {
    // What NaN leaves out here, it makes NaN of below.
    for (int64_t i = 0; i < count; ++i) most[i] = std::max(most[i], from[row * inner + i]);
  }
  for (int64_t row = 0; row < step.reduced; ++row) {
    float* power = to + row * inner;
    for (int64_t i = 0; i < count; ++i) difference[i] = from[row * inner + i] - most[i];
    loops.function(Operation::exp)(difference.data(), nullptr, power, count, 0.0f, 0.0f);
    for (int64_t i = 0; i < count; ++i) sum[i] += double{power[i]};
  }
  for (int64_t i = 0; i < count; ++i) {
    factor[i] = static_cast<float>(step.logarithm ? std::log(sum[i]) : 1.0 / sum[i]);
  }
  for (int64_t row = 0; row < step.reduced; ++row) {
    const float* x = from + row * inner;
    float* result = to + row * inner;
    if (step.logarithm) {
      for (int64_t i = 0; i < count; ++i) result[i] = (x[i] - most[i]) - factor[i];
    } else {
      for (int64_t i = 0; i < count; ++i) result[i] *= factor[i];
    }
  }
}

/** Adjacent elements so few that a loop over them costs more than to bring many of them side by side. */
constexpr int64_t kFewElements = 16;

/** Of `count` runs of few elements. */
void softmaxFew(const SoftmaxStep& step, const VectorLoops& loops, const float* from, int64_t count, float* to) {
  std::array<float, kFewElements * kColumns> columns, results;
  transposeStrip(from, step.reduced, count, step.reduced, columns.data(), kColumns);
  softmaxColumns(step, kColumns, loops, columns.data(), count, results.data());
  transposeStrip(results.data(), kColumns, step.reduced, count, to, step.reduced);
}

}  // namespace

void softmax(const SoftmaxStep& step, const float* input, float* output, const RunContext& context) {
  if (step.reduced == 0) return;
  const VectorLoops& loops = vectorLoops(context.isa);
  if (step.inner == 1 && step.reduced <= kFewElements) {
    const int64_t blocks = (step.outer + kColumns - 1) / kColumns;
    forEachRange(context, blocks, kColumns * step.reduced, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i * kColumns, offset = first * step.reduced;
        softmaxFew(step, loops, input + offset, std::min(kColumns, step.outer - first), output + offset);
      }
    });
    return;
  }
  const int64_t blocks = (step.inner + kColumns - 1) / kColumns;
  forEachRange(context, step.outer * blocks, step.reduced * std::min(kColumns, step.inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t column = i % blocks * kColumns;
                   const int64_t offset = i / blocks * step.reduced * step.inner + column;
                   if (step.inner == 1) {
                     softmaxRun(step, loops, input + offset, output + offset);
                   } else {
                     softmaxColumns(step, step.inner, loops, input + offset, std::min(kColumns, step.inner - column),
                                    output + offset);
                   }
                 }
               });
}

}  // namespace warpconv::operators
