#pragma once

#include <cuda_runtime_api.h>

#include "cuda/planning/shape.h"

namespace warpconv::cuda {

/**
 * Finds the scale of each output channel's filter (fp16_split.cuh), which its largest finite weight gives, and stores
 * the inverse: [group][block of blockM outputs][blockM], beyond the group's outputs that of zeros.
 */
void launchFilterScales(const Shape& shape, int outputBlocks, int blockM, const float* filter, float* inverses,
                        cudaStream_t stream);

}  // namespace warpconv::cuda
