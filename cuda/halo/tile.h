#pragma once

#include <cstdint>
#include <string_view>

#include "host_device.h"

namespace warpconv::cuda::halo {

/** Input channels that are brought to shared memory together */
inline constexpr int kChunkChannels = 16;
/** Taps, of a chunk's channels each, whose high halves' products are one chain of sums; their filters come together */
inline constexpr int kGroupTaps = 3;
/** Output channels of a warpgroup's products */
inline constexpr int kWarpgroupM = 64;
/** Chunks of channels, and groups of taps' filters, that shared memory has room for, at most */
inline constexpr int kMostStages = 4;
inline constexpr int kMostSlots = 8;
inline constexpr int kMostTaps = 128;
/** Phases that are brought one after the other, at most; and taps once each phase's fill their groups */
inline constexpr int kMostParts = 16;
inline constexpr int kMostOrderedTaps = kMostTaps + kMostParts * (kGroupTaps - 1);
/** What every device with clusters lets a cluster have; sixteen, where a kernel may have them, were never fastest. */
inline constexpr int kMostBlocks = 8;

/** Bytes of a stage: the chunk's channels of `pixels` elements, in halves of two bytes each. */
WARPCONV_HOST_DEVICE constexpr int64_t stageBytes(int64_t pixels) { return 2 * kChunkChannels * 2 * pixels; }

/** Bytes of a tap's filters: those of kWarpgroupM outputs and a chunk's channels, in halves. */
inline constexpr int kTapBytes = 2 * kWarpgroupM * kChunkChannels * 2;
/** Words of one of its halves, of two channels each; and a group of taps' */
inline constexpr int kHalfWords = kTapBytes / 8;
inline constexpr int kGroupBytes = kGroupTaps * kTapBytes, kGroupWords = kGroupBytes / 4;

/** What a block computes: M counts output channels, N positions of the grid. */
struct HaloTile {
  int blockM, blockN;
  /** Positions of a warpgroup */
  int columns;
  /** Blocks that a multiprocessor has room for: of two, one may be the next kernel's. */
  int held;
  /** Whether phases are brought and multiplied one after the other, and not together */
  bool inParts = false;

  WARPCONV_HOST_DEVICE constexpr int warpgroupsM() const { return blockM / kWarpgroupM; }
  WARPCONV_HOST_DEVICE constexpr int warpgroupsN() const { return blockN / columns; }
  /** Threads that have sums, and all of a block */
  WARPCONV_HOST_DEVICE constexpr int threads() const { return 128 * warpgroupsM() * warpgroupsN(); }
  /** Threads that bring elements */
  WARPCONV_HOST_DEVICE constexpr int loaders() const { return columns == 128 ? 128 : 256; }
  /** Channels of an element that such a thread brings together; and elements whose channels it keeps in registers */
  WARPCONV_HOST_DEVICE constexpr int loaderChannels() const { return kChunkChannels * 128 / loaders(); }
  WARPCONV_HOST_DEVICE constexpr int heldElements() const { return columns == 128 ? 2 : 3; }
  /** The last warpgroup has the thread that brings filters. */
  WARPCONV_HOST_DEVICE constexpr int launchThreads() const { return threads() + loaders() + 128; }
  /** What a thread of it needs, and no thread may have less */
  static constexpr int kFewestRegisters = 24;
  /** Registers of a thread that a block begins with, of those that load, and of those that have sums. */
  WARPCONV_HOST_DEVICE constexpr int launchRegisters() const { return 65536 / held / launchThreads() / 8 * 8; }
  WARPCONV_HOST_DEVICE constexpr int loaderRegisters() const { return columns == 128 ? 72 : 56; }
  WARPCONV_HOST_DEVICE constexpr int sumRegisters() const {
    const int others = loaderRegisters() * loaders() + kFewestRegisters * 128;
    return (launchRegisters() * launchThreads() - others) / threads() / 8 * 8;
  }
  /** Bytes of a group of taps' filters, for all of the block's outputs */
  WARPCONV_HOST_DEVICE constexpr int slotBytes() const { return warpgroupsM() * kGroupBytes; }
  /** Floats of a row of staged sums: rows begin 8 banks apart, which keeps stores from conflicts. */
  WARPCONV_HOST_DEVICE constexpr int outputPitch() const { return blockN + 8; }
  WARPCONV_HOST_DEVICE constexpr int outputBytes() const { return 4 * blockM * outputPitch(); }
};

struct NamedTile {
  /** Of the variant that pins it */
  std::string_view variant;
  HaloTile tile;
};

inline constexpr NamedTile kTiles[] = {
    {"64x256", {64, 256, 128, 1}},           {"128x128", {128, 128, 128, 1}}, {"64x192", {64, 192, 96, 1}},
    {"64x192-parts", {64, 192, 96, 1, true}}, {"128x96", {128, 96, 96, 1}},    {"128x64", {128, 64, 64, 1}},
    {"64x64", {64, 64, 64, 2}},
};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

}  // namespace warpconv::cuda::halo
