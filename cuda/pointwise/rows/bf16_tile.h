#pragma once

#include "cuda/pointwise/rows/shape.h"

namespace warpconv::cuda::pointwise {

/**
 * By products of BF16's thirds, where threads hold all channels of a block's pixels at once, and these are few
 * (bf16_kernel.cuh).
 */
struct Bf16RowsTile : RowsShape<16, 96, 3> {
  static constexpr int mostChunks = 1;
  /** Whose sums are stored while the next ones are made */
  static constexpr int kGroupFilters = 24;

  WARPCONV_HOST_DEVICE constexpr int mostChannels() const { return chunkSteps * kStepChannels; }
  constexpr bool mayBeSplit(int /*split*/) const { return false; }
  static constexpr Family kFamily{"rows-bf16", FilterSource::parts};
  constexpr bool takes(int64_t /*channels*/, int64_t blockChannels) const { return blockChannels <= mostChannels(); }
  static constexpr std::span<const Bf16RowsTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = RowsModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const Bf16RowsTile&) const = default;
};

/**
 * Of ten that were timed at batch 1 on an H100, the fastest on a layer each. With 96 filters a multiprocessor is to
 * hold two blocks only: with three the next kernel's blocks find no room beside them (docs/experiments.md).
 */
inline constexpr Bf16RowsTile kBf16RowsTiles[] = {{{24, 2, 4}}, {{72, 2, 3}}, {{96, 1, 2}}};

constexpr std::span<const Bf16RowsTile> Bf16RowsTile::kernels() { return kBf16RowsTiles; }

}  // namespace warpconv::cuda::pointwise
