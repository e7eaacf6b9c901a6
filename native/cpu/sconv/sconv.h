#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/**
 * Direct convolution by slicing and packing on demand (Ferrari et al., "Advancing Direct Convolution using
 * Convolution Slicing Optimization and ISA Extensions"): the loop nest of Figure 5, input-stationary, with filters
 * packed once when the plan is prepared. Takes every problem. No padded copy of the input is made.
 */
extern const CpuAlgorithm kSconv;

}  // namespace warpconv
