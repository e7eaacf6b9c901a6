#pragma once

#include <cstdint>

#include "problem/conv_problem.h"

namespace warpconv::sconv {

/**
 * Packs the elements of up to kTileWindows adjacent windows for the micro-kernel: dst[c][r][s][window], windows
 * beyond `count` and padded elements as zeros (SConv, section 6.1 and Figure 7).
 *
 * Window i of the tile is output element firstWindow + i of a map of P x Q; `maps` points at the first of `channels`
 * input maps of H x W.
 */
void packWindows(const ConvProblem& problem, const float* maps, int64_t channels, int64_t firstWindow, int64_t count,
                 float* dst);

/**
 * Packs up to kTileFilters filters of one group: dst[c][r][s][filter], filters beyond `count` as zeros (SConv,
 * section 6.3). `filters` points at element [first filter][first channel] of the K x C/groups x R x S tensor.
 */
void packFilters(const ConvProblem& problem, const float* filters, int64_t channels, int64_t count, float* dst);

}  // namespace warpconv::sconv
