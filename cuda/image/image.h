#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Convolution of few input channels in float32 and NCHW, as images come, to 16-bit floats in NHWC, as networks of
 * halves go on. A block keeps the filters in shared memory, and of tile after tile the image around it, rounded to
 * halves: tensor cores multiply windows as they lie there, in pairs of neighbouring columns. No window is written
 * anywhere. From compute capability 8.0 on.
 */
std::optional<std::string> refuseImage(const GpuRequest& request);
ConvFormat formatImage(const GpuRequest& request);
Estimate estimateImage(const GpuRequest& request);
std::vector<FilterForm> formsImage(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareImage(const GpuRequest& request, const GpuWeights& weights);

inline constexpr GpuAlgorithm kImage{"image",    {},      refuseImage,  estimateImage,
                                     formsImage, nullptr, prepareImage, formatImage};

}  // namespace warpconv::cuda
