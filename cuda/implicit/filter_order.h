#pragma once

#include <cuda_runtime_api.h>

#include "cuda/planning/shape.h"
#include "problem/conv_format.h"

namespace warpconv::cuda::implicit {

/**
 * Enqueues what writes filters, K x C x R x S, as kernels of inputs of `type` take them: `rows` of filters, chunks of
 * channels a tap.
 */
cudaError_t launchFilterOrder(const Shape& shape, FloatType type, int rows, int channelChunks, const float* filter,
                              void* ordered, cudaStream_t stream);

}  // namespace warpconv::cuda::implicit
