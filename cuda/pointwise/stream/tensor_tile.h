#pragma once

#include "cuda/pointwise/tile.h"
#include "cuda/tensor_core/tensor_block.h"

namespace warpconv::cuda::pointwise {

/**
 * A kernel on tensor cores whose pixels go straight to registers (tensor_kernel.cuh); M counts filters, N pixels.
 */
struct StreamTensorTile {
  int m, n;
  /** Rows of M that a thread has: 2 or 4 */
  int threadM;
  /** Warps that share an output's channels */
  int parts;
  /** Blocks of a multiprocessor that registers are to leave room for */
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
  static constexpr Family kFamily{"stream-tensor", FilterSource::whole};
  constexpr NameSizes sizes() const { return {m, n, parts}; }
  constexpr Patch patch() const { return {m, n}; }
  constexpr bool takes(int64_t /*channels*/, int64_t /*blockChannels*/) const { return true; }
  static constexpr std::span<const StreamTensorTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = GemmModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Tiles describe(const Candidate& candidate) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const StreamTensorTile&) const = default;
};

/** Of nine that were timed, those that cost something to leave out (docs/experiments.md). */
inline constexpr StreamTensorTile kStreamTensorTiles[] = {
    {16, 32, 2, 4, 4}, {16, 32, 2, 8, 2}, {16, 64, 2, 4, 2}, {32, 32, 4, 4, 3}, {32, 64, 4, 2, 3},
};

constexpr std::span<const StreamTensorTile> StreamTensorTile::kernels() { return kStreamTensorTiles; }

}  // namespace warpconv::cuda::pointwise
