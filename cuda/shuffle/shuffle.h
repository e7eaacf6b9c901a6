#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Column reuse by warp shuffles and row reuse by a rolling window of accumulators: a warp owns a strip of adjacent
 * output columns and walks down it, so that an input element is loaded once and travels between lanes and rows in
 * registers. Shines where the filters are few: depthwise convolutions and images.
 *
 * Variants: `neither`, `column`, `row` and `both` are the published scheme, one column a thread, with its two parts
 * switched on and off; `wide` gives a thread four adjacent input columns and 16-byte loads, with shuffles at the seams
 * only; `dilated` gives a thread one column, of rows that are the dilation apart; `planes` keeps several small maps of
 * a depthwise convolution in shared memory.
 */
std::optional<std::string> refuseShuffle(const GpuRequest& request);
Estimate estimateShuffle(const GpuRequest& request);
std::vector<FilterForm> formsShuffle(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareShuffle(const GpuRequest& request, const GpuWeights& weights);

inline constexpr std::string_view kShuffleVariants[] = {"neither", "column",  "row",   "both",
                                                        "wide",    "dilated", "planes"};
inline constexpr GpuAlgorithm kShuffle{"shuffle",    kShuffleVariants, refuseShuffle, estimateShuffle,
                                       formsShuffle, nullptr,          prepareShuffle};

}  // namespace warpconv::cuda
