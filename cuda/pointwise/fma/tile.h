#pragma once

#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise {

/**
 * A kernel of float32 multiply-adds (kernel.cuh): the tile of a block, that of a thread, groups of warps that share the
 * channels of a stage, channels of a stage, and stages of copies.
 */
struct FmaTile {
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
  static constexpr Family kFamily{"", FilterSource::stages};
  constexpr NameSizes sizes() const { return {filters, pixels, slices}; }
  constexpr Patch patch() const { return {filters, pixels}; }
  constexpr bool takes(int64_t /*channels*/, int64_t /*blockChannels*/) const { return true; }
  static constexpr std::span<const FmaTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = GemmModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Tiles describe(const Candidate& candidate) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const FmaTile&) const = default;
};

inline constexpr FmaTile kFmaTiles[] = {
    {128, 128, 8, 8, 1, 16, 3}, {64, 128, 8, 8, 1, 8, 4}, {32, 256, 8, 8, 1, 8, 4}, {16, 256, 4, 8, 1, 8, 4},
    {64, 64, 4, 4, 1, 16, 4},   {32, 32, 4, 4, 4, 32, 4}, {16, 64, 4, 4, 4, 32, 4}, {16, 32, 4, 4, 8, 64, 3},
    {64, 64, 8, 8, 4, 32, 3},   {32, 64, 8, 8, 8, 64, 3}, {32, 32, 8, 4, 8, 64, 3}, {16, 16, 4, 2, 8, 64, 4},
    {8, 16, 2, 2, 8, 64, 4},
};

constexpr std::span<const FmaTile> FmaTile::kernels() { return kFmaTiles; }

}  // namespace warpconv::cuda::pointwise
