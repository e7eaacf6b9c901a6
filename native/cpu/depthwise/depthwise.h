#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/**
 * Depthwise convolution, channel multipliers included: every output map comes from one input map, so an outer product
 * would use one of its many rows. Vectors run along an output row, each tap of the filter is one multiply-add, and a
 * row of the input is loaded once for all the output rows it belongs to.
 */
extern const CpuAlgorithm kDepthwise;

}  // namespace warpconv
