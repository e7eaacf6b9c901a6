#pragma once

#include <cstdint>
#include <string_view>

#include "cuda/host_device.h"

namespace warpconv::cuda::halo {

/** Input channels that are brought to shared memory together; each tap's product over them is one chain of sums. */
inline constexpr int kChunkChannels = 16;
/** Output channels of a warpgroup's products */
inline constexpr int kWarpgroupM = 64;
inline constexpr int kLoaders = 128;
/** Chunks of channels that shared memory has room for, at most */
inline constexpr int kMostStages = 4;
inline constexpr int kMostTaps = 128;
/** What every device with clusters lets a cluster have; sixteen, where a kernel may have them, were never fastest. */
inline constexpr int kMostBlocks = 8;

/** Bytes of a stage: the chunk's channels of `pixels` elements, in halves. */
WARPCONV_HOST_DEVICE constexpr int64_t stageBytes(int64_t pixels) { return 2 * kChunkChannels * 4 * pixels; }

/** What a block computes: M counts output channels, N positions of the grid. */
struct HaloTile {
  int blockM, blockN;
  /** Positions of a warpgroup */
  int columns;
  /** Warpgroups that have the same outputs, and take turns with the products */
  int parts;

  WARPCONV_HOST_DEVICE constexpr int warpgroupsM() const { return blockM / kWarpgroupM; }
  WARPCONV_HOST_DEVICE constexpr int warpgroupsN() const { return blockN / columns; }
  /** Threads that have sums, and all of a block */
  WARPCONV_HOST_DEVICE constexpr int threads() const { return 128 * warpgroupsM() * warpgroupsN() * parts; }
  WARPCONV_HOST_DEVICE constexpr int launchThreads() const { return threads() + kLoaders; }
  /**
   * Registers of a thread that a block begins with, of those that load, and of those that have sums. With 56 instead of
   * 80 those that load took 7 % longer at batch 1 on an H100 for 64 channels of 56 x 56, and with 104 up to 1 %; sums
   * of more columns leave no more.
   */
  WARPCONV_HOST_DEVICE constexpr int launchRegisters() const { return 65536 / launchThreads() / 8 * 8; }
  WARPCONV_HOST_DEVICE constexpr int loaderRegisters() const { return columns == 64 ? 80 : 56; }
  WARPCONV_HOST_DEVICE constexpr int sumRegisters() const {
    return (launchRegisters() * launchThreads() - loaderRegisters() * kLoaders) / threads() / 8 * 8;
  }
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
    {"64x256", {64, 256, 128, 1}},   {"128x128", {128, 128, 128, 1}}, {"128x64", {128, 64, 64, 1}},
    {"64x128x2", {64, 128, 128, 2}}, {"64x64x2", {64, 64, 64, 2}},
};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

}  // namespace warpconv::cuda::halo
