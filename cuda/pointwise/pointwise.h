#pragma once

#include "cuda/algorithm.h"
#include "cuda/pointwise/variants.h"

namespace warpconv::cuda {

/**
 * 1 x 1 convolution as a product of matrices whose tiles a planner chooses (planner.h). Any stride, groups and batch;
 * no padding.
 */
std::optional<std::string> refusePointwise(const GpuRequest& request);
Estimate estimatePointwise(const GpuRequest& request);
std::vector<FilterForm> formsPointwise(const GpuRequest& request, const Weights& weights);
std::optional<std::string> packedPointwiseVariant(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> preparePointwise(const GpuRequest& request, const GpuWeights& weights);

inline constexpr GpuAlgorithm kPointwise{"pointwise",    pointwise::kVariants,   refusePointwise, estimatePointwise,
                                         formsPointwise, packedPointwiseVariant, preparePointwise};

}  // namespace warpconv::cuda
