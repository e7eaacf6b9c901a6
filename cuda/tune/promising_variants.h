#pragma once

#include <string>
#include <vector>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * The variants of an algorithm that are worth measuring for a problem: the few that it predicts to be fastest among
 * those that take the problem; and its own choice, the empty variant, unless that is one of these: one kernel would be
 * measured twice, and either time of it taken for the faster.
 */
std::vector<std::string> promisingVariants(const GpuAlgorithm& algorithm, const GpuRequest& request);

}  // namespace warpconv::cuda
