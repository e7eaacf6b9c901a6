#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * 1 x 1 convolution as a product of matrices whose tiles a planner chooses (planner.h). Any stride, groups and batch;
 * no padding.
 */
std::optional<std::string> refusePointwise(const GpuRequest& request);
Estimate estimatePointwise(const GpuRequest& request);
Result<std::unique_ptr<GpuConvolution>> preparePointwise(const GpuRequest& request, GpuWeights weights, Device& device);

/** The planner's candidates by name, and its paper's choice; each takes the problems for which it has a kernel. */
inline constexpr std::string_view kPointwiseVariants[] = {
    "paper",      "L1-c1-b2",  "L1-c2-b2",   "L1-c4-b2",   "L1-c8-b2",   "L1-c16-b2", "L1-c32-b2",  "L1-c1-b4",
    "L1-c2-b4",   "L1-c4-b4",  "L1-c8-b4",   "L1-c16-b4",  "L1-c32-b4",  "L2-c1-b2",  "L2-c2-b2",   "L2-c4-b2",
    "L2-c8-b2",   "L2-c16-b2", "L2-c32-b2",  "L2-c1-b4",   "L2-c2-b4",   "L2-c4-b4",  "L2-c8-b4",   "L2-c16-b4",
    "L2-c32-b4",  "128x128x1", "64x128x1",   "32x256x1",   "16x256x1",   "64x64x1",   "64x64x1-s2", "64x64x1-s4",
    "64x64x1-s8", "32x64x2",   "32x64x2-s2", "32x64x2-s4", "32x64x2-s8", "32x32x4",   "32x32x4-s2", "32x32x4-s4",
    "32x32x4-s8", "16x64x4",   "16x64x4-s2", "16x64x4-s4", "16x64x4-s8", "16x32x8",   "16x32x8-s2", "16x32x8-s4",
    "16x32x8-s8", "64x64x4",   "64x64x4-s2", "64x64x4-s4", "64x64x4-s8", "32x64x8",   "32x64x8-s2", "32x64x8-s4",
    "32x64x8-s8", "32x32x8",   "32x32x8-s2", "32x32x8-s4", "32x32x8-s8", "16x16x8",   "16x16x8-s2", "16x16x8-s4",
    "16x16x8-s8", "8x16x8",    "8x16x8-s2",  "8x16x8-s4",  "8x16x8-s8"};

inline constexpr GpuAlgorithm kPointwise{"pointwise", kPointwiseVariants, refusePointwise, estimatePointwise,
                                         preparePointwise};

}  // namespace warpconv::cuda
