#pragma once

#include "cuda/pointwise/tile.h"
#include "cuda/tensor_core/tensor_block.h"

namespace warpconv::cuda::pointwise {

/** A kernel on tensor cores (kernel.cuh); M counts filters, N pixels and K channels. */
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
  static constexpr Family kFamily{"tensor", FilterSource::stages};
  constexpr NameSizes sizes() const { return {block.m, block.n, block.parts}; }
  constexpr Patch patch() const { return {block.m, block.n}; }
  constexpr bool takes(int64_t /*channels*/, int64_t /*blockChannels*/) const { return true; }
  static constexpr std::span<const TensorTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = GemmModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Tiles describe(const Candidate& candidate) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const TensorTile&) const = default;
};

/** Of thirteen that were timed, those that cost something to leave out (docs/experiments.md). */
inline constexpr TensorTile kTensorTiles[] = {
    {{64, 64, 16, 4, 8, 1}, 4, 3},
    {{64, 32, 32, 4, 8, 2}, 4, 3},
    {{32, 128, 16, 4, 8, 1}, 4, 3},
};

constexpr std::span<const TensorTile> TensorTile::kernels() { return kTensorTiles; }

}  // namespace warpconv::cuda::pointwise
