#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/** From the definition, one thread an output: takes every problem, and is what the other families are read against. */
std::optional<std::string> refuseDirect(const GpuRequest& request);
Estimate estimateDirect(const GpuRequest& request);
std::vector<FilterForm> formsDirect(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareDirect(const GpuRequest& request, const GpuWeights& weights);

/** The same with K x C/groups x R x S filters and, unless null, K biases that need no preparation. */
Status launchDirect(const ConvProblem& problem, const Activation& activation, const FloatTensors& tensors,
                    const float* weight, const float* bias, cudaStream_t stream);

inline constexpr GpuAlgorithm kDirect{"direct", {}, refuseDirect, estimateDirect, formsDirect, nullptr, prepareDirect};

}  // namespace warpconv::cuda
