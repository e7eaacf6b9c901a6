#pragma once

#include "cpu/convolution.h"

namespace warpconv {

/**
 * Depthwise convolution, channel multipliers included: every output map comes from one input map, so an outer product
 * would use one of its many rows. Vectors run along an output row, and each tap of the filter is one multiply-add.
 */
extern const CpuAlgorithm kDepthwise;

}  // namespace warpconv
