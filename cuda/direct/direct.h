#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/** From the definition, one thread an output: takes every problem, and is what the other families are read against. */
std::optional<std::string> refuseDirect(const GpuRequest& request);
Estimate estimateDirect(const GpuRequest& request);
Result<std::unique_ptr<GpuConvolution>> prepareDirect(const GpuRequest& request, GpuWeights weights, Device& device);

inline constexpr GpuAlgorithm kDirect{"direct", {}, refuseDirect, estimateDirect, prepareDirect};

}  // namespace warpconv::cuda
