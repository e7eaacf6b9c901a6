#pragma once

#include <string_view>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Convolution of few input channels, as networks begin with. A block keeps the whole filters of its output channels in
 * shared memory, and the input around its outputs, in pairs of neighbouring elements: from there, windows go to tensor
 * cores as they overlap. No window is ever written anywhere, and nothing but the first elements is waited for. Products
 * are those of warpgroups, which compute capability 9.0 alone has, of operands split into two numbers of FP16, as
 * accurate as float32. Variants pin the tile, of output channels by outputs.
 */
std::optional<std::string> refuseStem(const GpuRequest& request);
Estimate estimateStem(const GpuRequest& request);
std::vector<FilterForm> formsStem(const GpuRequest& request, const Weights& weights);
std::optional<std::string> packedStemVariant(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareStem(const GpuRequest& request, const GpuWeights& weights);

inline constexpr std::string_view kStemVariants[] = {"64x128", "64x64", "48x64", "32x128"};

inline constexpr GpuAlgorithm kStem{"stem", kStemVariants, refuseStem, estimateStem, formsStem, packedStemVariant,
                                    prepareStem};

}  // namespace warpconv::cuda
