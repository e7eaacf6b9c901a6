#pragma once

#include "rival.h"

namespace rivals {

/** A pointwise layer at stride 1 needs no im2col (SConv, section 7.5). */
bool isMatrix(const Layer& layer);

/**
 * im2col as Caffe does it, the windows of `channels` maps: columns[c][r][s][p][q]. The layer's own numbers of channels,
 * filters and groups are not read.
 */
void writeColumns(const Layer& layer, const float* maps, int64_t channels, float* columns);

}  // namespace rivals
