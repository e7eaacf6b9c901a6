#pragma once

#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise {

struct StreamModel;

/**
 * A kernel of ordinary multiply-adds whose threads hold all channels of their pixels, or a slice of them, in registers
 * (kernel.cuh): a block's filters, pixels and channels of a thread, warps side by side, and `slices` of them
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
  static constexpr Family kFamily{"stream", FilterSource::whole};
  constexpr NameSizes sizes() const { return {filters, pixels(), slices}; }
  constexpr Patch patch() const { return {filters, pixels()}; }
  constexpr bool takes(int64_t /*channels*/, int64_t blockChannels) const { return blockChannels <= mostChannels(); }
  static constexpr std::span<const StreamTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = StreamModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Tiles describe(const Candidate& candidate) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const StreamTile&) const = default;
};

/**
 * Of 21 that were timed on the bench's layers at batch 1 to 16 on an H100, the fastest for at most 16, 32, 64 and 192
 * channels.
 */
inline constexpr StreamTile kStreamTiles[] = {
    {12, 2, 16, 4, 1, 6}, {4, 4, 32, 4, 1, 2}, {8, 2, 16, 2, 4, 3}, {4, 2, 24, 1, 8, 2}};

constexpr std::span<const StreamTile> StreamTile::kernels() { return kStreamTiles; }

}  // namespace warpconv::cuda::pointwise
