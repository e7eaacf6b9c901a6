#pragma once

#include <cstdint>

namespace warpconv::sconv {

/**
 * The outer-product micro-kernel (SConv, section 5) in portable C++:
 * tile[f][w] = sum over e < depth of filters[e][f] * windows[e][w], for kTileFilters x kTileWindows.
 * All three are dense; the sum runs in the order of e.
 */
void multiplyTile(int64_t depth, const float* windows, const float* filters, float* tile);

}  // namespace warpconv::sconv
