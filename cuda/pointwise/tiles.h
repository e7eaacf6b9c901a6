#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda/sum_exchange.h"
#include "cuda/tensor_block.h"

// The kernels that exist, as plain data: what a planner may return and what the instances compile.

namespace warpconv::cuda::pointwise {

/** Which side of the output matrix, filters x pixels, lies across the lanes of a warp: the paper's L1 and L2. */
enum class Layout : int { filtersAcrossLanes = 1, pixelsAcrossLanes = 2 };

inline constexpr int kWarpSize = 32;

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

/**
 * A kernel of the extension (gemm_kernel.cuh): the tile of a block, that of a thread, groups of warps that share the
 * channels of a stage, channels of a stage, and stages of copies.
 */
struct GemmTile {
  int filters, pixels;
  int threadFilters, threadPixels;
  int slices;
  int channels;
  int stages;

  constexpr int threads() const { return filters / threadFilters * (pixels / threadPixels) * slices; }
  /** Of the pixels' offsets, which the kernel has apart from the rest */
  constexpr int64_t offsetBytes() const { return int64_t{4} * pixels; }
  /** Of the stages, or of the staged sums: at most four rows a thread at a time */
  constexpr int64_t sharedBytes() const {
    const int copied = stages * channels * (filters + pixels);
    const int staged = filters * pixels * slices / (threadFilters > 4 ? threadFilters / 4 : 1);
    return int64_t{4} * (copied > staged ? copied : staged);
  }
  /** That the kernel is compiled for: the sums, both fragments twice, and addresses fit without spills. */
  constexpr int registers() const {
    return threadFilters * threadPixels >= 64 ? 128 : threadFilters * threadPixels >= 32 ? 96 : 80;
  }
  constexpr int residentBlocks() const {
    const int byRegisters = 65536 / (registers() * threads());
    const int byThreads = 1024 / threads();
    return byRegisters < byThreads ? byRegisters : byThreads;
  }
  /** Larger tiles are for outputs that fill the device without. */
  constexpr bool mayBeSplit(int /*split*/) const { return filters <= 64 && pixels <= 64; }
  /** Of a step, and what a block's are a multiple of */
  constexpr int stepChannels() const { return channels; }
  constexpr int unitChannels() const { return channels; }
  constexpr bool operator==(const GemmTile&) const = default;
};

inline constexpr GemmTile kGemmTiles[] = {
    {128, 128, 8, 8, 1, 16, 3}, {64, 128, 8, 8, 1, 8, 4}, {32, 256, 8, 8, 1, 8, 4}, {16, 256, 4, 8, 1, 8, 4},
    {64, 64, 4, 4, 1, 16, 4},   {32, 64, 4, 4, 2, 16, 4}, {32, 32, 4, 4, 4, 32, 4}, {16, 64, 4, 4, 4, 32, 4},
    {16, 32, 4, 4, 8, 64, 3},   {64, 64, 8, 8, 4, 32, 3}, {32, 64, 8, 8, 8, 64, 3}, {32, 32, 8, 4, 8, 64, 3},
    {16, 16, 4, 2, 8, 64, 4},   {8, 16, 2, 2, 8, 64, 4},
};

/** What a launch bound of so many blocks of a multiprocessor lets a thread have, in the steps that they are given in.
 */
constexpr int registersFor(int residentBlocks, int threads) {
  const int registers = 65536 / (residentBlocks * threads) / 8 * 8;
  return registers < 255 ? registers : 255;
}

/** A kernel of the extension on tensor cores (tensor_kernel.cuh); M counts filters, N pixels and K channels. */
struct TensorTile {
  TensorBlock block;
  int stages;
  /** Blocks of a multiprocessor that registers are to leave room for */
  int residentBlocks;

  WARPCONV_HOST_DEVICE constexpr int threads() const { return block.threads(); }
  constexpr int64_t offsetBytes() const { return int64_t{4} * block.n; }
  constexpr int64_t sharedBytes() const {
    const int copied = stages * block.stageFloats();
    const int staged = block.m * block.n * block.parts;
    return int64_t{4} * (copied > staged ? copied : staged);
  }
  constexpr int registers() const { return registersFor(residentBlocks, threads()); }
  /** Of the copies of pixels that a thread makes, whose addresses take registers that large tiles need */
  WARPCONV_HOST_DEVICE constexpr int unrolledCopies() const { return block.threadM * block.threadN < 64 ? 2 : 1; }
  constexpr bool mayBeSplit(int /*split*/) const { return block.m <= 64 && block.n <= 64; }
  constexpr int stepChannels() const { return block.k; }
  constexpr int unitChannels() const { return block.k; }
  constexpr bool operator==(const TensorTile&) const = default;
};

/** Of thirteen timed on an H200 on the named layers, those that were best or within 3 % of it somewhere. */
inline constexpr TensorTile kTensorTiles[] = {
    {{64, 64, 16, 4, 8, 1}, 4, 3}, {{32, 64, 32, 4, 8, 2}, 4, 3},  {{64, 32, 32, 4, 8, 2}, 4, 3},
    {{32, 32, 64, 4, 8, 4}, 3, 3}, {{32, 128, 16, 4, 8, 1}, 4, 3}, {{16, 64, 32, 2, 8, 2}, 4, 4},
};

/** Of `channels` that `split` blocks share, those of a block, in whole units of so many. */
constexpr int64_t channelsOfBlock(int64_t channels, int unit, int split) {
  const int64_t units = (channels + unit - 1) / unit;
  return (units + split - 1) / split * unit;
}

/**
 * Shared memory that blocks of streaming kernels may have: one of the next kernel's fits beside it. Half of 228 KB,
 * less the 1 KB that the system takes and 2 KB for what a kernel has in fixed places.
 */
inline constexpr int64_t kMostStreamedBytes = 111 * 1024;

/**
 * A kernel of ordinary multiply-adds whose threads hold all channels of their pixels, or a slice of them, in registers
 * (stream_kernel.cuh): a block's filters, pixels and channels of a thread, warps side by side, and `slices` of them
 * that share the channels.
 */
struct StreamTile {
  int filters;
  int threadPixels, threadChannels;
  int warpsPixels, slices;
  /** Blocks of a multiprocessor that registers are to leave room for */
  int residentBlocks;

  WARPCONV_HOST_DEVICE constexpr int pixels() const { return kWarpSize * threadPixels * warpsPixels; }
  WARPCONV_HOST_DEVICE constexpr int threads() const { return kWarpSize * warpsPixels * slices; }
  /** Of a group: no more fit into the registers of its threads. */
  WARPCONV_HOST_DEVICE constexpr int mostChannels() const { return threadChannels * slices; }
  constexpr int64_t offsetBytes() const { return slices > 1 ? int64_t{4} * pixels() : 0; }
  WARPCONV_HOST_DEVICE constexpr int filterFloats() const { return mostChannels() * filters; }
  /** Of the filters, and of the sums of slices, where there are several */
  constexpr int64_t sharedBytes() const {
    return int64_t{4} * (filterFloats() + (slices > 1 ? slices * filters * pixels() : 0));
  }
  constexpr int registers() const { return registersFor(residentBlocks, threads()); }
  constexpr bool mayBeSplit(int /*split*/) const { return false; }
  constexpr int stepChannels() const { return mostChannels(); }
  constexpr int unitChannels() const { return 1; }
  constexpr bool operator==(const StreamTile&) const = default;
};

/**
 * Of 21 timed on an H100 (bench/results, -stream-kernels) on the bench's layers at batch 1 to 16, the fastest for 16,
 * 32, 64 and 192 channels at most: on a layer or two each at batch 1 (8x128x4 within 5 % of products by rows). Where
 * threads had four channels on their way instead of all, as in the kernels before these, three layers that are theirs
 * took 8 to 20 % longer.
 */
inline constexpr StreamTile kStreamTiles[] = {
    {12, 2, 16, 4, 1, 6}, {4, 4, 32, 4, 1, 2}, {8, 2, 16, 2, 4, 3}, {4, 2, 24, 1, 8, 2}};

/** The same on tensor cores (stream_tensor_kernel.cuh); M counts filters, N pixels. */
struct StreamTensorTile {
  int m, n;
  /** Rows of M that a thread has: 2 or 4 */
  int threadM;
  /** Warps that share an output's channels */
  int parts;
  /** Likewise */
  int residentBlocks;

  WARPCONV_HOST_DEVICE constexpr TensorBlock block() const { return {m, n, 8 * parts, threadM, 8, parts}; }
  WARPCONV_HOST_DEVICE constexpr int threads() const { return block().threads(); }
  constexpr int64_t offsetBytes() const { return int64_t{4} * n; }
  /** Of the filters of so many channels, or of the staged sums */
  constexpr int64_t sharedBytes(int64_t channels) const {
    const int64_t copied = (channels + 7) / 8 * 8 * block().pitchM();
    const int64_t staged = int64_t{m} * n * parts;
    return 4 * (copied > staged ? copied : staged);
  }
  constexpr int registers() const { return registersFor(residentBlocks, threads()); }
  constexpr bool mayBeSplit(int /*split*/) const { return true; }
  constexpr int stepChannels() const { return 8 * parts; }
  constexpr int unitChannels() const { return 8; }
  constexpr bool operator==(const StreamTensorTile&) const = default;
};

/** Likewise, of nine. */
inline constexpr StreamTensorTile kStreamTensorTiles[] = {
    {16, 32, 2, 4, 4}, {16, 32, 2, 8, 2}, {16, 64, 2, 4, 2}, {32, 32, 4, 4, 3}, {32, 32, 4, 8, 1}, {32, 64, 4, 2, 3},
};

/** How the filters lie that warpgroups' products take from shared memory (filter_halves.cu). */
struct HalvesLayout {
  /** Of a tile */
  int filters;
  /** Whether the low halves of a plane follow its high ones, so that one product takes both */
  bool isPaired;
  /** Of one product: 16 where halves are numbers of FP16 or BF16, 8 where they are of TF32 */
  int stepChannels;
  /** Of a filter: halves, or BF16's thirds, which are paired */
  int parts = 2;

  WARPCONV_HOST_DEVICE constexpr bool isTf32() const { return stepChannels == 8; }
  WARPCONV_HOST_DEVICE constexpr bool isBf16() const { return parts == 3; }
  /** Whether filters have a scale */
  WARPCONV_HOST_DEVICE constexpr bool isScaled() const { return !isTf32() && !isBf16(); }
  /** Of two planes of each of the parts, with 16 bytes for a filter: eight channels, or four of TF32 */
  WARPCONV_HOST_DEVICE constexpr int stepBytes() const { return 2 * parts * 16 * filters; }
  /** From a filter's high half in a plane to that in the next one, and to its low half; or from third to third */
  WARPCONV_HOST_DEVICE constexpr int planeBytes() const { return (isPaired ? parts : 1) * 16 * filters; }
  WARPCONV_HOST_DEVICE constexpr int lowBytes() const { return isPaired ? 16 * filters : stepBytes() / 2; }
};

/** A kernel whose products a warpgroup makes (warpgroup_kernel.cuh), of 64 filters by up to so many pixels. */
struct WarpgroupTile {
  int pixels;
  /** Blocks of a multiprocessor that registers are to leave room for */
  int residentBlocks;

  static constexpr int kFilters = 64, kThreads = 128;
  constexpr int threads() const { return kThreads; }
  static constexpr int kStepChannels = 16;
  static constexpr HalvesLayout kHalves{kFilters, false, kStepChannels};
  static constexpr int kStepBytes = kHalves.stepBytes();
  /** A thread reads four times eight channels, which exist or do not together; and the steps that all threads bring */
  static constexpr int kThreadEights = 4, kEightChannels = 8;
  WARPCONV_HOST_DEVICE constexpr int chunkSteps() const {
    return kThreads * kThreadEights * kEightChannels / (pixels * kStepChannels);
  }
  constexpr bool takes(int64_t channels) const { return channels % kEightChannels == 0; }
  WARPCONV_HOST_DEVICE constexpr int chunkChannels() const { return chunkSteps() * kStepChannels; }
  WARPCONV_HOST_DEVICE constexpr int chunkBytes() const { return 2 * 2 * chunkChannels() * pixels; }
  /**
   * Whether pixels' low halves of eight channels follow the high ones, so that filters' high halves are multiplied by
   * both at once: products of few columns wait for the filters that they read of shared memory, 2 KB each.
   */
  WARPCONV_HOST_DEVICE constexpr bool isPaired() const { return pixels == 32; }
  /** Columns of eight channels that follow each other, and bytes from a column's high half to its low one */
  WARPCONV_HOST_DEVICE constexpr int planeColumns() const { return isPaired() ? 2 * pixels : pixels; }
  WARPCONV_HOST_DEVICE constexpr int lowBytes() const { return isPaired() ? 16 * pixels : chunkBytes() / 2; }
  /** Of a thread's sums: what blocks of a cluster send each other (sum_exchange.cuh) */
  static constexpr int kPieces = 8;
  WARPCONV_HOST_DEVICE constexpr int pieceWidth() const { return kFilters * pixels / kThreads / kPieces; }
  WARPCONV_HOST_DEVICE constexpr int chunks(int64_t channels) const {
    return static_cast<int>((channels + chunkChannels() - 1) / chunkChannels());
  }
  /**
   * Whether there is a kernel by which two chunks, where these are a block's channels, are on their way together. On an
   * H100 pw_28_512_128 took 3.37 us by it instead of 3.49, pw_56_256_64 3.40 instead of 3.51 and, of 32 pixels,
   * pw_14_1024_256 3.29 instead of 3.52; pw_7_2048_512, whose pixels are read one by one, 4.50 instead of 4.41.
   */
  constexpr bool mayBePair(bool aligned) const { return pixels == 64 || aligned; }
  constexpr bool isPair(int64_t channels, bool aligned) const { return mayBePair(aligned) && chunks(channels) == 2; }
  /** Of whole chunks: zeros, or what belongs to another block, beyond its own */
  WARPCONV_HOST_DEVICE constexpr int filterBytes(int64_t channels) const {
    return chunks(channels) * chunkSteps() * kStepBytes;
  }
  constexpr int64_t offsetBytes() const { return int64_t{4} * pixels; }
  /** Of filters, a chunk or a pair, and the sums that come of a cluster's `split` blocks, where there are several */
  constexpr int64_t sharedBytes(int64_t channels, int split, bool aligned) const {
    const int exchanged = split > 1 ? exchangedBytes(kPieces, pieceWidth(), kThreads, split) : 0;
    return filterBytes(channels) + (isPair(channels, aligned) ? 2 : 1) * chunkBytes() + exchanged;
  }
  constexpr int registers() const { return registersFor(residentBlocks, kThreads); }
  constexpr bool mayBeSplit(int /*split*/) const { return true; }
  constexpr int stepChannels() const { return kStepChannels; }
  constexpr int unitChannels() const { return kStepChannels; }
  constexpr bool operator==(const WarpgroupTile&) const = default;
};

/**
 * Of six timed on the bench's layers at batch 1 on an H100. Two warpgroups that shared a block's channels were best
 * nowhere; 128 filters by 32 pixels, by two warpgroups, were on one layer, until the next chunk's loads ran beside
 * products, and on none in the two comparisons since. Nor did blocks help that are one for each multiprocessor:
 * pw_56_256_64 took 3 % less in 132 of 48 pixels than in its 98 in one program, and 1 % more in another; pw_56_64_256,
 * which has 196 blocks, took 12 % longer in 132 of 128 filters by 48 pixels. Those are done sooner, but what all store
 * at once and the next kernel's filters then wait for each other in the L2 cache. Pairs of 32 pixels need more
 * registers than three blocks leave.
 */
inline constexpr WarpgroupTile kWarpgroupTiles[] = {{32, 2}, {64, 3}};

/**
 * The same the other way round: up to 64 pixels are the rows of a warpgroup's products, which it has in registers, and
 * so many filters their columns. Of steps of kChannels channels, in kParts parts; up to kMostPaired filters are paired,
 * see HalvesLayout.
 */
template <int kChannels, int kMostPaired, int kParts = 2>
struct RowsShape {
  int filters;
  /** Of a chunk, whose products are a chain */
  int chunkSteps;
  /** Blocks of a multiprocessor that registers are to leave room for */
  int residentBlocks;

  static constexpr int kPixels = 64, kThreads = 128, kStepChannels = kChannels;
  constexpr int threads() const { return kThreads; }
  WARPCONV_HOST_DEVICE constexpr HalvesLayout halves() const {
    return {filters, filters <= kMostPaired, kStepChannels, kParts};
  }
  WARPCONV_HOST_DEVICE constexpr int chunks(int64_t channels) const {
    return static_cast<int>((channels + chunkSteps * kStepChannels - 1) / (chunkSteps * kStepChannels));
  }
  /** Of whole chunks: zeros, or what belongs to another block, beyond its own */
  WARPCONV_HOST_DEVICE constexpr int filterBytes(int64_t channels) const {
    return chunks(channels) * chunkSteps * halves().stepBytes();
  }
  /** A thread's sums of a filter: what blocks of a cluster send each other (sum_exchange.cuh) */
  static constexpr int kPieceWidth = 2;
  WARPCONV_HOST_DEVICE constexpr int pieces() const { return filters * kPixels / kThreads / kPieceWidth; }
  static constexpr int64_t offsetBytes() { return 0; }
  /** Of filters, and the sums that come of the `split` blocks of a cluster, where there are several */
  constexpr int64_t sharedBytes(int64_t channels, int split) const {
    return filterBytes(channels) + (split > 1 ? exchangedBytes(pieces(), kPieceWidth, kThreads, split) : 0);
  }
  constexpr int registers() const { return registersFor(residentBlocks, kThreads); }
  WARPCONV_HOST_DEVICE constexpr bool mayBeSplit(int split) const { return pieces() % split == 0; }
  constexpr int stepChannels() const { return kStepChannels; }
  constexpr int unitChannels() const { return kStepChannels; }
  constexpr bool operator==(const RowsShape&) const = default;
};

/** By products of FP16, chunk by chunk (rows_kernel.cuh). */
using RowsTile = RowsShape<16, 32>;

/**
 * Of those of 16 to 96 filters, by 64 pixels and by 128, in chunks of one to eight steps, that were timed on the
 * bench's layers on an H100, those that were best or within 2 % of it somewhere at batch 2 to 16. A step of zeros takes
 * as long as any other: 64 channels as two chunks of three steps took 1.95 us, as one of four 1.74.
 */
inline constexpr RowsTile kRowsTiles[] = {{24, 3, 2}, {32, 3, 2}, {32, 4, 2}, {48, 3, 2}, {64, 4, 2}};

/** By products of TF32, where threads hold all channels of a block's pixels at once (tf32_rows_kernel.cuh). */
struct Tf32RowsTile : RowsShape<8, 64> {
  /** Of a block */
  int mostChunks;

  WARPCONV_HOST_DEVICE constexpr int mostChannels() const { return mostChunks * chunkSteps * kStepChannels; }
  constexpr bool operator==(const Tf32RowsTile&) const = default;
};

/**
 * Of 16 with 16 to 64 filters, in chunks of three to eight steps, that were timed on the bench's layers at batch 1 on
 * an H100, those that were fastest on one. By 64 filters they took from 1 % less to a fifth more than by FP16.
 */
inline constexpr Tf32RowsTile kTf32RowsTiles[] = {{{16, 3, 4}, 2}, {{24, 3, 2}, 3}, {{32, 3, 3}, 2}, {{48, 5, 2}, 2}};

/**
 * By products of BF16's thirds, where threads hold all channels of a block's pixels at once, and these are few
 * (bf16_rows_kernel.cuh).
 */
struct Bf16RowsTile : RowsShape<16, 96, 3> {
  static constexpr int mostChunks = 1;
  /** Whose sums are stored while the next ones are made */
  static constexpr int kGroupFilters = 24;

  WARPCONV_HOST_DEVICE constexpr int mostChannels() const { return chunkSteps * kStepChannels; }
  constexpr bool mayBeSplit(int /*split*/) const { return false; }
  constexpr bool operator==(const Bf16RowsTile&) const = default;
};

/**
 * Of ten timed on layers of the bench at batch 1 on an H100, four also at batch 2, those that were best on one that is
 * theirs: pw_56_24_144 took 2.10 us by 72 filters and 2.14 by 48. With 96, registers are to leave room for two blocks
 * of a multiprocessor, so that three are not offered: of two images, 392 blocks, pw_112_16_96 took 5.08 us instead of
 * 4.60 by streams, probably because the next kernel's blocks found no room beside them.
 */
inline constexpr Bf16RowsTile kBf16RowsTiles[] = {{{24, 2, 4}}, {{72, 2, 3}}, {{96, 1, 2}}};

/**
 * Of shared memory, of a block of any tile that has so many channels, of `split` that share them. `aligned`: as
 * Arguments says.
 */
template <typename Tile>
constexpr int64_t sharedBytesFor(const Tile& tile, int64_t channels, int split, bool aligned) {
  if constexpr (requires { tile.sharedBytes(channels, split, aligned); }) {
    return tile.sharedBytes(channels, split, aligned);
  } else if constexpr (requires { tile.sharedBytes(channels, split); }) {
    return tile.sharedBytes(channels, split);
  } else if constexpr (requires { tile.sharedBytes(channels); }) {
    return tile.sharedBytes(channels);
  } else {
    return tile.sharedBytes();
  }
}

}  // namespace warpconv::cuda::pointwise
