#pragma once

#include <array>
#include <cstddef>

#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise {

/** Which side of the output matrix, filters x pixels, lies across the lanes of a warp: the paper's L1 and L2. */
enum class Layout : int { filtersAcrossLanes = 1, pixelsAcrossLanes = 2 };

/**
 * A kernel of the paper's scheme: 2 x 2 warps a block, `channels` lanes (C_num) share an output, and a thread holds
 * `elements` (T_num) of the side across the lanes by `height` (Warp_H) of the other.
 */
struct DynamicTile {
  Layout layout;
  int channels;
  int elements;
  int height;

  constexpr int elementLanes() const { return kWarpSize / channels; }
  constexpr int blockWidth() const { return 2 * elements * elementLanes(); }
  constexpr int blockHeight() const { return 2 * height; }
  constexpr int blockFilters() const { return layout == Layout::filtersAcrossLanes ? blockWidth() : blockHeight(); }
  constexpr int blockPixels() const { return layout == Layout::filtersAcrossLanes ? blockHeight() : blockWidth(); }

  /** The wide tile's rows are padded so that the 32 (channel, element) pairs of a warp lie in 32 banks. */
  constexpr int widePitch() const {
    const int width = blockWidth();
    return width + (elementLanes() % kWarpSize - width % kWarpSize + kWarpSize) % kWarpSize;
  }
  /** Floats of one of the two buffers of C_num channels */
  constexpr int bufferFloats() const { return channels * (widePitch() + blockHeight()); }
  /**
   * The paper's (BlockTile_H + BlockTile_W) * C_num * 4 * 2 with rows padded, or the finished tile that is staged in
   * the same place, and the pixels' offsets in the output.
   */
  constexpr int64_t sharedBytes() const {
    const int buffers = 2 * bufferFloats();
    const int staged = blockFilters() * blockPixels();
    return int64_t{4} * ((buffers > staged ? buffers : staged) + blockPixels());
  }
  /** R_o + R_i + R_f + R_tmpf + R_tmpi + const */
  constexpr int registers() const {
    const auto share = [](int floats) { return (floats + kDynamicThreads - 1) / kDynamicThreads; };
    return elements * height + elements + height + share(channels * blockWidth()) + share(channels * blockHeight()) +
           kOtherRegisters;
  }
  /** Blocks that the kernel is compiled to let a multiprocessor hold: the paper's two choices. */
  constexpr int residentBlocks() const { return registers() <= 128 ? 4 : 2; }

  static constexpr int kDynamicThreads = 128;
  /** Addresses and counters: the compiler's reports (sm_90) lie above the others by 30 (4 x 4) to 50 (12 x 8). */
  static constexpr int kOtherRegisters = 40;

  static constexpr Family kFamily{"", FilterSource::stages};
  constexpr Patch patch() const { return {blockFilters(), blockPixels()}; }
  constexpr int threads() const { return kDynamicThreads; }
  constexpr int64_t offsetBytes() const { return 0; }
  constexpr int unitChannels() const { return 1; }
  Tiles describe(const Candidate& candidate) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const DynamicTile&) const = default;
};

namespace detail {

/** Calls use(tile) for every tile of the paper's scheme that is compiled. */
constexpr void forEachDynamicTile(auto use) {
  for (const Layout layout : {Layout::filtersAcrossLanes, Layout::pixelsAcrossLanes}) {
    for (const int channels : {1, 2, 4, 8, 16, 32}) {
      for (const int elements : {1, 2, 3, 4, 6, 8, 12, 16}) {
        const DynamicTile widest{layout, channels, elements, 1};
        const bool power = (elements & (elements - 1)) == 0;
        // L1 meets 48 to 512 filters. L2 meets at most 32 pixels, and a power of two, so that a thread that copies has
        // one pixel all along.
        const bool wanted = layout == Layout::filtersAcrossLanes
                                ? widest.blockWidth() >= 48 && widest.blockWidth() <= 512
                                : power && widest.blockWidth() <= 32;
        if (!wanted) continue;
        for (int height = 1; height <= 8 && height <= elements; height *= 2) {
          use(DynamicTile{layout, channels, elements, height});
        }
      }
    }
  }
}

consteval size_t countDynamicTiles() {
  size_t count = 0;
  forEachDynamicTile([&](const DynamicTile&) { ++count; });
  return count;
}

consteval auto listDynamicTiles() {
  std::array<DynamicTile, countDynamicTiles()> tiles{};
  size_t next = 0;
  forEachDynamicTile([&](const DynamicTile& tile) { tiles[next++] = tile; });
  return tiles;
}

}  // namespace detail

inline constexpr auto kDynamicTiles = detail::listDynamicTiles();

}  // namespace warpconv::cuda::pointwise
