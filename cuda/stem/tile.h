#pragma once

#include <cstdint>
#include <string_view>

#include "host_device.h"

namespace warpconv::cuda::stem {

/** Adjacent outputs of a row that a warp has: the rows of a warpgroup's products are four such. */
inline constexpr int kWarpColumns = 16;
/** Pairs of a filter row's elements that one product takes */
inline constexpr int kStepPairs = 8;
/** Steps of a sum at most, all of whose filters are kept */
inline constexpr int kMostSteps = 32;
/** Of those whose products of high halves are one chain of sums, at most */
inline constexpr int kMostTogether = 3;

/** What a block computes at a time: M counts output channels; windows are rows of kWarpColumns outputs. */
struct StemTile {
  int blockM, rows;
  /** Blocks that registers leave room for on a multiprocessor */
  int held;
  /** Steps whose products of high halves are one chain of sums, but for what is left at last: two or three */
  int together;

  WARPCONV_HOST_DEVICE constexpr int blockN() const { return rows * kWarpColumns; }
  WARPCONV_HOST_DEVICE constexpr int threads() const { return 32 * rows; }
  /** Bytes of a step's filters, in halves of two bytes each */
  WARPCONV_HOST_DEVICE constexpr int stepBytes() const { return 2 * kStepPairs * 2 * 2 * blockM; }
  /** Output channels whose sums a warp stages at a time, and floats from one's to the next */
  WARPCONV_HOST_DEVICE constexpr int stagedChannels() const { return blockM / 2; }
  static constexpr int kStagedPitch = kWarpColumns + 4;
  WARPCONV_HOST_DEVICE constexpr int stagedFloats() const { return stagedChannels() * kStagedPitch; }
  WARPCONV_HOST_DEVICE constexpr int stagedBytes() const { return 4 * rows * stagedFloats(); }
};

struct NamedTile {
  /** Of the variant that pins it */
  std::string_view variant;
  StemTile tile;
};

/**
 * Of 64, 48 and 32 channels by 128 and 64 windows, those that were fastest somewhere on the bench's layers of three
 * channels on an H100, and the better one for no more than 32 channels. How many blocks and steps together registers
 * have room for decides the rest, for res_stem at batch 1, side by side: of 64 x 64, three blocks with two steps took
 * 5.76 us and two blocks with three 6.05; of 64 x 128, of which there is one block, three steps took 5.43 and two 5.69.
 */
inline constexpr NamedTile kTiles[] = {
    {"64x128", {64, 8, 1, 3}}, {"64x64", {64, 4, 3, 2}}, {"48x64", {48, 4, 3, 2}}, {"32x128", {32, 8, 2, 2}}};
/** Of all tiles' blockM */
inline constexpr int kMostM = 64;
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

}  // namespace warpconv::cuda::stem
