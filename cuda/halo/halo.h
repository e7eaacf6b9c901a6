#pragma once

#include <string_view>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Convolution without windows: a tile of adjacent outputs and the halo of input elements around it are brought to
 * shared memory once, and each tap (r, s) of the filter is a matrix product of K x C by C x outputs with the same
 * elements, begun so many columns later. Where im2win copies and splits an input element up to R * S times for a block,
 * this does so once. Products are those of warpgroups, which compute capability 9.0 alone has, of operands split into
 * two numbers of FP16, as accurate as float32. Variants pin the tile; `-parts` brings and multiplies the phases of
 * strided taps one after the other, for which there is room where together they have none.
 */
std::optional<std::string> refuseHalo(const GpuRequest& request);
Estimate estimateHalo(const GpuRequest& request);
std::vector<FilterForm> formsHalo(const GpuRequest& request, const Weights& weights);
std::optional<std::string> packedHaloVariant(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareHalo(const GpuRequest& request, const GpuWeights& weights);

inline constexpr std::string_view kHaloVariants[] = {"64x256", "128x128", "64x192", "64x192-parts",
                                                     "128x96", "128x64",  "64x64"};

inline constexpr GpuAlgorithm kHalo{"halo", kHaloVariants, refuseHalo, estimateHalo, formsHalo, packedHaloVariant,
                                    prepareHalo};

}  // namespace warpconv::cuda
