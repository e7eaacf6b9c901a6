#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/planning/shape.h"
#include "cuda/pointwise/halves_layout.h"

namespace warpconv::cuda::pointwise {

/**
 * Splits K x C' filters for warpgroups' products: [group][tile of filters][step of channels], zeros beyond the last of
 * either, and of each step high halves and low ones, or thirds, as the layout has them, [plane][filter][channel] each.
 * Those of FP16 by a scale of each filter, whose inverse is stored as [group][tile][filter].
 */
void launchFilterHalves(const Shape& shape, const HalvesLayout& layout, int filterTiles, int steps, const float* weight,
                        uint32_t* halves, float* inverses, cudaStream_t stream);

}  // namespace warpconv::cuda::pointwise
