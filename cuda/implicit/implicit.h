#pragma once

#include <string_view>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Convolution in NHWC, of 16-bit floats or of float32 by products of TF32, as a matrix product of pixels by filters
 * whose first operand, the windows, is never stored: the copy engine of compute capability 9.0 brings each tap's
 * channels of a tile's pixels to shared memory, where warpgroups multiply them. Variants pin the tile.
 */
std::optional<std::string> refuseImplicit(const GpuRequest& request);
/** NHWC in 16-bit floats, or in float32 for TF32: the input's type, or what the precision lets products be of. */
ConvFormat formatImplicit(const GpuRequest& request);
Estimate estimateImplicit(const GpuRequest& request);
std::vector<FilterForm> formsImplicit(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareImplicit(const GpuRequest& request, const GpuWeights& weights);

inline constexpr std::string_view kImplicitVariants[] = {"128x256", "256x128", "128x128", "128x64",
                                                         "64x128",  "64x64",   "64x32"};

inline constexpr GpuAlgorithm kImplicit{"implicit",    kImplicitVariants, refuseImplicit,  estimateImplicit,
                                        formsImplicit, nullptr,           prepareImplicit, formatImplicit};

}  // namespace warpconv::cuda
