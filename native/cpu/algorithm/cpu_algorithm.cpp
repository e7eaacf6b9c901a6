#include "cpu/algorithm/cpu_algorithm.h"

#include <algorithm>

namespace warpconv {

void RunContext::parallelFor(int64_t tasks, TaskBody body, Executor::Sleepers sleepers) const {
  if (executor != nullptr) return executor->parallelFor(tasks, body, sleepers);
  for (int64_t task = 0; task < tasks; ++task) body(task);
}

std::shared_ptr<const CopiedFilters> copiedFilters(const ConvProblem& problem, Weights& weights) {
  return weights.form<CopiedFilters>({}, [&](const float* filters) {
    auto copy = std::make_shared<CopiedFilters>(CopiedFilters{AlignedBuffer(problem.weightSize())});
    std::copy_n(filters, problem.weightSize(), copy->data.data());
    return std::shared_ptr<const CopiedFilters>(std::move(copy));
  }).value();
}

bool hasCopiedFilters(const ConvProblem&, const CpuInfo&, const Weights& weights) {
  return weights.has<CopiedFilters>({});
}

void copyBias(const ConvProblem& problem, const ConvWeights& weights, float* dst) {
  if (weights.bias != nullptr) {
    std::copy_n(weights.bias, problem.k, dst);
  } else {
    std::fill_n(dst, problem.k, 0.0f);
  }
}

}  // namespace warpconv
