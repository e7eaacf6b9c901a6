#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "host_device.h"

namespace warpconv::cuda::implicit {

/** Channels of a tap that a stage has: 128 bytes of 16-bit elements, the widest row that is swizzled. */
inline constexpr int kChunkChannels = 64;
/** Output channels that are ordered together: see filterRow */
inline constexpr int kFilterGroup = 32;
inline constexpr int kMostStages = 8;
inline constexpr int kMostSplit = 8;

/** Outputs that a block makes: pixels of all images, one after the other, by output channels. */
struct ImplicitTile {
  int pixels, filters;
  /** Blocks that a multiprocessor has registers for */
  int held;

  WARPCONV_HOST_DEVICE constexpr int warpgroups() const { return pixels / 64; }
  WARPCONV_HOST_DEVICE constexpr int consumers() const { return 128 * warpgroups(); }
  /** The last warp brings elements and filters */
  /** Channels of a box of outputs: 128 bytes of a pixel, or less */
  WARPCONV_HOST_DEVICE constexpr int boxFilters() const { return filters < 64 ? filters : 64; }
  WARPCONV_HOST_DEVICE constexpr int boxBytes() const { return 64 * 2 * boxFilters(); }
  WARPCONV_HOST_DEVICE constexpr int outputBytes() const { return 2 * pixels * filters; }
  /** Whether there are kernels of blocks that make one tile or a share of one: the largest are for many tiles. */
  constexpr bool canBeSingle() const { return pixels * filters <= 128 * 128; }
  WARPCONV_HOST_DEVICE constexpr int threads() const { return consumers() + 32; }
  WARPCONV_HOST_DEVICE constexpr int sumsOfThread() const { return filters / 2; }
  WARPCONV_HOST_DEVICE constexpr int pixelBytes() const { return 2 * kChunkChannels * pixels; }
  WARPCONV_HOST_DEVICE constexpr int stageBytes() const { return 2 * kChunkChannels * (pixels + filters); }
  /** Eight outputs of a thread: adjacent channels of a pixel */
  WARPCONV_HOST_DEVICE constexpr int octets() const { return sumsOfThread() / 8; }
};

struct NamedTile {
  std::string_view variant;
  ImplicitTile tile;
};

inline constexpr NamedTile kTiles[] = {
    {"128x256", {128, 256, 1}}, {"256x128", {256, 128, 1}}, {"128x128", {128, 128, 2}}, {"128x64", {128, 64, 3}},
    {"64x128", {64, 128, 3}},   {"64x64", {64, 64, 4}},     {"64x32", {64, 32, 4}},
};
inline constexpr int kTileCount = std::size(kTiles);

}  // namespace warpconv::cuda::implicit
