#pragma once

#include <cuda_runtime_api.h>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda::im2win {

/** The im2win tensor of `input`: tensor[n][c][p][x * R + r] = input[n][c][p * strideH + r * dilationH - padTop][x -
 * padLeft]. */
void launchTransform(const Shape& shape, int paddedWidth, const float* input, float* tensor, cudaStream_t stream);

/** Algorithm 2: one thread an output, from the im2win tensor and ordered filters. */
void launchBasic(const Shape& shape, int paddedWidth, int pitch, int length, const float* tensor, const float* filter,
                 float* output, const Epilogue& epilogue, cudaStream_t stream);

/**
 * output = finished sum of `splits` tensors of the output's extents that follow each other, in that order. `early` lets
 * its blocks become resident while the GEMM ends (programmatic dependent launch), from compute capability 9.0 on.
 */
cudaError_t launchSplitSum(const Shape& shape, int splits, const float* sums, float* output, const Epilogue& epilogue,
                           bool quadOutputs, bool early, cudaStream_t stream);

}  // namespace warpconv::cuda::im2win
