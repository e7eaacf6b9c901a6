#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Depthwise convolutions of float16 or bfloat16 in NHWC, with one filter a channel. A thread has two channels of a
 * strip of adjacent output columns, and walks down the input with the sums of all output rows that a row belongs to: a
 * row is read once. Products and sums are float32's, filters stay float32. Square filters of 3, 5 and 7 have kernels of
 * their own; one kernel takes all others.
 */
std::optional<std::string> refuseDepthwise(const GpuRequest& request);
ConvFormat formatDepthwise(const GpuRequest& request);
Estimate estimateDepthwise(const GpuRequest& request);
std::vector<FilterForm> formsDepthwise(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareDepthwise(const GpuRequest& request, const GpuWeights& weights);

inline constexpr GpuAlgorithm kDepthwise{"depthwise",    {},      refuseDepthwise,  estimateDepthwise,
                                         formsDepthwise, nullptr, prepareDepthwise, formatDepthwise};

}  // namespace warpconv::cuda
