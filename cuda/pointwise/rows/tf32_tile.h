#pragma once

#include "cuda/pointwise/rows/shape.h"

namespace warpconv::cuda::pointwise {

/** By products of TF32, where threads hold all channels of a block's pixels at once (tf32_kernel.cuh). */
struct Tf32RowsTile : RowsShape<8, 64> {
  /** Of a block */
  int mostChunks;

  WARPCONV_HOST_DEVICE constexpr int mostChannels() const { return mostChunks * chunkSteps * kStepChannels; }
  static constexpr Family kFamily{"rows-tf32", FilterSource::parts};
  constexpr bool takes(int64_t /*channels*/, int64_t blockChannels) const { return blockChannels <= mostChannels(); }
  static constexpr std::span<const Tf32RowsTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = RowsModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const Tf32RowsTile&) const = default;
};

/** Of 16 that were timed, those that cost something to leave out (docs/experiments.md). */
inline constexpr Tf32RowsTile kTf32RowsTiles[] = {{{16, 3, 4}, 2}, {{24, 3, 2}, 3}};

constexpr std::span<const Tf32RowsTile> Tf32RowsTile::kernels() { return kTf32RowsTiles; }

}  // namespace warpconv::cuda::pointwise
