#pragma once

#include "cuda/algorithm.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda {

/**
 * The textbook's baseline: the column matrix [C * R * S][P * Q] of each image is written out, and a matrix product with
 * the filters follows, which is a pointwise convolution of C * R * S channels and is computed as one.
 */
std::optional<std::string> refuseIm2col(const GpuRequest& request);
Estimate estimateIm2col(const GpuRequest& request);
std::vector<FilterForm> formsIm2col(const GpuRequest& request, const Weights& weights);
Result<std::unique_ptr<GpuConvolution>> prepareIm2col(const GpuRequest& request, const GpuWeights& weights);

/** The same request as a pointwise convolution of the column matrix. */
GpuRequest matrixProductOf(const GpuRequest& request);
/** Writes the column matrices of all images. */
Status launchIm2col(const Shape& shape, const float* input, float* columns, cudaStream_t stream);
/** Of the column matrix, the input of that product, with what aligns the scratch memory after it. */
int64_t columnBytes(const ConvProblem& product);

inline constexpr GpuAlgorithm kIm2col{"im2col", {}, refuseIm2col, estimateIm2col, formsIm2col, nullptr, prepareIm2col};

}  // namespace warpconv::cuda
