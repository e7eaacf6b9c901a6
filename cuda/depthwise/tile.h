#pragma once

#include <iterator>

#include "host_device.h"

namespace warpconv::cuda::depthwise {

/** Neighbouring channels of a thread: it moves them as one word. */
inline constexpr int kChannels = 2;
inline constexpr int kWordBytes = 4;
inline constexpr int kThreads = 128;

/** What a thread of a kernel has, and for which filters. */
struct Tile {
  /** Of F x F filters, or 0 for those of any extents, strides and dilations */
  int filter;
  int stride;
  /** Adjacent output columns of a thread */
  int columns;
  /** Input rows that are on their way while it works on another: a multiple of the stride */
  int ahead;
  /** Blocks that a multiprocessor holds, by the registers that the kernel takes */
  int resident;
};

/** Output rows whose windows hold an input row of F x F filters of stride T, rounded up to whole strides. */
WARPCONV_HOST_DEVICE constexpr int rowsInFlight(int filter, int stride) { return (filter + stride - 1) / stride; }

/** Input columns that the windows of adjacent output columns span. */
WARPCONV_HOST_DEVICE constexpr int inputColumns(int filter, int stride, int columns) {
  return (columns - 1) * stride + filter;
}

/** One kernel for each type of halves. The last takes every problem; narrow strips are for few outputs. */
inline constexpr Tile kTiles[] = {{3, 1, 2, 3, 7}, {3, 1, 7, 2, 4}, {3, 2, 4, 4, 4}, {5, 1, 7, 2, 2},
                                  {5, 2, 4, 2, 3}, {7, 1, 4, 2, 2}, {0, 1, 4, 0, 8}};
inline constexpr int kTileCount = static_cast<int>(std::size(kTiles));

}  // namespace warpconv::cuda::depthwise
