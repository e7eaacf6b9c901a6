#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/**
 * The definition as plain loops with double-precision sums: takes every problem, is the most accurate and the
 * slowest, and skips padded elements instead of multiplying them by zero.
 */
extern const CpuAlgorithm kDirect;

/** The same, for other algorithms to hand on what they must not compute: keeps a copy of weights and biases. */
std::unique_ptr<CpuConvolution> prepareDirect(const ConvProblem& problem, const Activation& activation,
                                              const ConvWeights& weights);

}  // namespace warpconv
