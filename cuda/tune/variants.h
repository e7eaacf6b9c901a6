#pragma once

#include <string>
#include <vector>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * The variants of an algorithm that are worth measuring for a problem: the empty one, which is its own choice, and the
 * few that it predicts to be fastest among those that take the problem.
 */
std::vector<std::string> promisingVariants(const GpuAlgorithm& algorithm, const GpuRequest& request);

}  // namespace warpconv::cuda
