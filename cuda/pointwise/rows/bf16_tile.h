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
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Models& models) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const Bf16RowsTile&) const = default;
};

/**
 * Of ten timed on layers of the bench at batch 1 on an H100, four also at batch 2, those that were best on one that is
 * theirs: pw_56_24_144 took 2.10 us by 72 filters and 2.14 by 48. With 96, registers are to leave room for two blocks
 * of a multiprocessor, so that three are not offered: of two images, 392 blocks, pw_112_16_96 took 5.08 us instead of
 * 4.60 by streams, probably because the next kernel's blocks found no room beside them.
 */
inline constexpr Bf16RowsTile kBf16RowsTiles[] = {{{24, 2, 4}}, {{72, 2, 3}}, {{96, 1, 2}}};

constexpr std::span<const Bf16RowsTile> Bf16RowsTile::kernels() { return kBf16RowsTiles; }

}  // namespace warpconv::cuda::pointwise
