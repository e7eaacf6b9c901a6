#pragma once

#include <cstdint>

#include "host_device.h"

namespace warpconv::cuda::image {

/** Outputs that a block makes at a time: rows by columns of an image, by output channels. */
inline constexpr int kRows = 8, kColumns = 16;
inline constexpr int kThreads = 128;
/** Rows of outputs that a warp makes. The 16 outputs of a row are the 16 rows of an mma. */
inline constexpr int kRowsOfWarp = kRows / (kThreads / 32);
/** Elements of a window that are multiplied at once */
inline constexpr int kStep = 16;
/** Output channels that are ordered together: see channelOf */
inline constexpr int kFilterGroup = 32;

/** Output channels of a kernel; blocks take the next so many with the same elements. */
inline constexpr int kTiles[] = {32, 64};
inline constexpr int kTileCount = 2;
/** Blocks that a multiprocessor has registers for */
WARPCONV_HOST_DEVICE constexpr int residentOf(int filters) { return filters == 32 ? 5 : 4; }

/**
 * Channel of a row of filters: of each 32 rows, row 8 j + 2 t + i has channel 8 t + 2 j + i, so that a thread's sums
 * are adjacent channels.
 */
WARPCONV_HOST_DEVICE constexpr int channelOf(int row) {
  const int j = row / 8 % 4, t = row / 2 % 4, i = row % 2;
  return row / kFilterGroup * kFilterGroup + 8 * t + 2 * j + i;
}

/** Two neighbouring elements of a window: where they lie in a patch, and which of their bits are of the window. */
struct WindowPair {
  uint32_t offset, mask;
};

/** Two pairs of a step that a thread multiplies, 8 elements apart. */
struct WindowPairs {
  WindowPair low, high;
};

}  // namespace warpconv::cuda::image
