#pragma once

#include <cuda_runtime_api.h>

#include "cuda/image/arguments.h"

namespace warpconv::cuda::image {

/** Enqueues what writes filters, K x C x R x S, as kernels take them. */
cudaError_t launchFilterOrder(const Arguments& arguments, FloatType type, const float* filter, void* ordered,
                              cudaStream_t stream);

}  // namespace warpconv::cuda::image
