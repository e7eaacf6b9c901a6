#pragma once

#include <cuda_runtime_api.h>

#include "cuda/planning/shape.h"

namespace warpconv::cuda {

/**
 * Filters in window order, transposed: ordered[g][(c * S + s) * R + r][k] = filter[g * K / groups + k][c][r][s], with
 * zeros for k from K / groups up to `pitch` and for steps from the filter's size up to `length`; by roundForTf32, or as
 * they are.
 */
void launchWindowFilterOrder(const Shape& shape, int pitch, int length, bool rounded, const float* filter,
                             float* ordered, cudaStream_t stream);

}  // namespace warpconv::cuda
