#pragma once

#include "cuda/epilogue/sum_exchange.h"
#include "cuda/pointwise/halves_layout.h"
#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise {

struct WarpgroupModel;

/** A kernel whose products a warpgroup makes (kernel.cuh), of 64 filters by up to so many pixels. */
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
   * Whether there is a kernel that loads two chunks at once, for blocks with the channels of just two. Tiles of 32
   * pixels gain by it only where pixels are read by fours (docs/experiments.md).
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
  static constexpr Family kFamily{"warpgroup", FilterSource::parts};
  constexpr NameSizes sizes() const { return {kFilters, pixels, 0}; }
  constexpr Patch patch() const { return {kFilters, pixels}; }
  constexpr HalvesLayout halves() const { return kHalves; }
  constexpr bool takes(int64_t channels, int64_t /*blockChannels*/) const { return channels % kEightChannels == 0; }
  static constexpr std::span<const WarpgroupTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = WarpgroupModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Tiles describe(const Candidate& candidate) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const WarpgroupTile&) const = default;
};

/**
 * Two of six that were timed on the bench's layers at batch 1 on an H100 (docs/experiments.md). Pairs of 32 pixels need
 * more registers than three blocks leave.
 */
inline constexpr WarpgroupTile kWarpgroupTiles[] = {{32, 2}, {64, 3}};

constexpr std::span<const WarpgroupTile> WarpgroupTile::kernels() { return kWarpgroupTiles; }

}  // namespace warpconv::cuda::pointwise
