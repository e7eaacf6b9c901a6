#pragma once

#include <memory>

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv::test {

/** A convolution whose weights nobody shares. Biases may be null. */
inline std::unique_ptr<CpuConvolution> prepare(const CpuAlgorithm& algorithm, const ConvProblem& problem,
                                               const Activation& activation, const float* weight, const float* bias,
                                               const CpuInfo& cpu, const sconv::Switches& switches) {
  Weights weights(weight, problem.k, problem.filterSize());
  return algorithm.prepare(problem, activation, {weights, bias}, cpu, switches);
}

}  // namespace warpconv::test
