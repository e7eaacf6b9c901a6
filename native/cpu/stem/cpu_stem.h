#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/**
 * Windows in vector lanes over packed input rows, for small filters: sums go to NCHW outputs as they are, where those
 * of sconv are turned first, which takes as long as 16 elements of a filter. First layers of networks have 27 or 147.
 *
 * A band of output rows at a time, the input rows below it are copied with their padding into
 * rows[c][h][phase][i] = input[c][h][i * stride.w + phase - padding.left], so that element (c, r, s) of 16 adjacent
 * windows is 16 adjacent floats, whatever the stride.
 */
extern const CpuAlgorithm kStem;

}  // namespace warpconv
