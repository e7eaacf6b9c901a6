#pragma once

#include <string_view>

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * Convolution in window order (S. Lu, J. Chu, L. Guo and X. T. Liu: Im2win: An Efficient Convolution Paradigm on GPU,
 * Euro-Par 2023): a GEMM of K x (C * R * S) by (C * R * S) x (N * P * Q) for each group, whose reduction runs over
 * channels, filter columns and filter rows, in this order. `explicit` and its ablations read windows from the paper's
 * tensor in the workspace, `basic` too, with one thread an output (Algorithm 2); `implicit` builds the same order in
 * shared memory from the input itself and needs no tensor. `implicit-tf32x3` multiplies on tensor cores, as accurately
 * as float32 does, from compute capability 8.0 on; `implicit-wgmma` does so by products of whole warpgroups, on 9.0
 * alone.
 */
std::optional<std::string> refuseIm2win(const GpuRequest& request);
Estimate estimateIm2win(const GpuRequest& request);
std::vector<FilterForm> formsIm2win(const GpuRequest& request, const Weights& weights);
std::optional<std::string> packedIm2winVariant(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareIm2win(const GpuRequest& request, const GpuWeights& weights);

inline constexpr std::string_view kIm2winVariants[] = {"basic",
                                                       "explicit",
                                                       "explicit-no-prefetch",
                                                       "explicit-no-vector",
                                                       "explicit-no-microkernel",
                                                       "implicit",
                                                       "implicit-128x64",
                                                       "implicit-96x128",
                                                       "implicit-128x32",
                                                       "implicit-64x64",
                                                       "implicit-64x32",
                                                       "implicit-32x64",
                                                       "implicit-32x32",
                                                       "implicit-16x64",
                                                       "implicit-tf32x3-128x64",
                                                       "implicit-tf32x3-64x128",
                                                       "implicit-tf32x3-64x64",
                                                       "implicit-tf32x3-64x64x2",
                                                       "implicit-tf32x3-64x32x2",
                                                       "implicit-tf32x3-64x32x8",
                                                       "implicit-tf32x3-32x64x2",
                                                       "implicit-tf32x3-32x32x4",
                                                       "implicit-tf32x3-32x32x8",
                                                       "implicit-wgmma-128x128",
                                                       "implicit-wgmma-64x256",
                                                       "implicit-wgmma-128x64",
                                                       "implicit-wgmma-64x64"};

inline constexpr GpuAlgorithm kIm2win{"im2win", kIm2winVariants, refuseIm2win, estimateIm2win, formsIm2win,
                                      packedIm2winVariant, prepareIm2win};

}  // namespace warpconv::cuda
