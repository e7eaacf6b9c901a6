#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "host_device.h"

namespace warpconv::cuda::implicit {

/** A stage has a row of one tap's channels for each pixel and each filter: as wide as rows are swizzled. */
inline constexpr int kRowBytes = 128;
/** A thread finishes adjacent channels of so many bytes at once. Swizzling keeps them together. */
inline constexpr int kPieceBytes = 16;
/** Rows of filters are a multiple of as many: see filterGroup */
inline constexpr int kFilterRows = 32;
inline constexpr int kMostStages = 8;
inline constexpr int kMostSplit = 8;
/** The most boxes of outputs that a block's warpgroups have room for, all together */
inline constexpr int kMostBoxes = 8;
/** A block has two barriers for each stage, and one for each of these boxes. */
inline constexpr int kBarrierBytes = 8 * (2 * kMostStages + kMostBoxes);

/** Outputs that a block makes: pixels of all images, one after the other, by output channels. */
struct ImplicitTile {
  int pixels, filters;
  /** Blocks that a multiprocessor has registers for */
  int held;
  /** Bytes of an element: 2 of halves, 4 of TF32 */
  int width = 2;

  WARPCONV_HOST_DEVICE constexpr ImplicitTile ofWidth(int bytes) const { return {pixels, filters, held, bytes}; }

  WARPCONV_HOST_DEVICE constexpr int warpgroups() const { return pixels / 64; }
  WARPCONV_HOST_DEVICE constexpr int consumers() const { return 128 * warpgroups(); }
  /** The last warp brings elements and filters */
  WARPCONV_HOST_DEVICE constexpr int threads() const { return consumers() + 32; }
  /** Whether there are kernels of blocks that make one tile or a share of one: the largest are for many tiles. */
  constexpr bool canBeSingle() const { return pixels * filters <= 128 * 128; }

  WARPCONV_HOST_DEVICE constexpr int chunkChannels() const { return kRowBytes / width; }
  WARPCONV_HOST_DEVICE constexpr int pixelBytes() const { return kRowBytes * pixels; }
  WARPCONV_HOST_DEVICE constexpr int stageBytes() const { return kRowBytes * (pixels + filters); }

  WARPCONV_HOST_DEVICE constexpr int sumsOfThread() const { return filters / 2; }
  /** Adjacent channels of a pixel; pieces of a thread */
  WARPCONV_HOST_DEVICE constexpr int pieceChannels() const { return kPieceBytes / width; }
  WARPCONV_HOST_DEVICE constexpr int pieces() const { return sumsOfThread() / pieceChannels(); }
  /** Output channels that are ordered together: one piece of each of the four threads that share a row of sums */
  WARPCONV_HOST_DEVICE constexpr int filterGroup() const { return 4 * pieceChannels(); }

  // Boxes of outputs, each of 64 pixels by 128 bytes or less, that the copy engine stores, and whose residual it
  // brings. A warpgroup makes them one after the other, and has room for some at a time: the fewer, the more stages
  // there are.

  WARPCONV_HOST_DEVICE constexpr int boxChannels() const {
    return filters < kRowBytes / width ? filters : kRowBytes / width;
  }
  WARPCONV_HOST_DEVICE constexpr int boxBytes() const { return 64 * width * boxChannels(); }
  WARPCONV_HOST_DEVICE constexpr int boxes() const { return filters / boxChannels(); }
  /** log2 of the boxes that a warpgroup has room for: `more`, or few */
  constexpr int heldBoxes(bool more) const { return (filters > 128 ? 1 : 0) + (more && filters > 64 ? 1 : 0); }
  WARPCONV_HOST_DEVICE constexpr int outputBytes(int boxesHeld) const {
    return (warpgroups() * boxBytes()) << boxesHeld;
  }
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
