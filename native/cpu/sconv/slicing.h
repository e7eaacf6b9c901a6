#pragma once

#include <cstdint>

#include "devices/cpu_info.h"
#include "problem/conv_problem.h"

namespace warpconv::sconv {

/** Windows of one input tile (N_win) and filters of one filter tile (N_f): what the micro-kernel computes at once. */
inline constexpr int64_t kTileWindows = 8;
inline constexpr int64_t kTileFilters = 8;

/** How a convolution is cut, in the terms of Convolution Slicing Analysis (Ferrari et al., SConv, section 4.1). */
struct Slicing {
  /** N_c: input channels of one channel set */
  int64_t channels;
};

/**
 * Starts with all channels of a group and halves them until one input, one filter and one output tile fit together
 * into the share of the L1 cache that Equation 2 leaves them.
 */
Slicing sliceConvolution(const ConvProblem& problem, const CpuCaches& caches);

}  // namespace warpconv::sconv
