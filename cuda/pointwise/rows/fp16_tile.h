#pragma once

#include "cuda/pointwise/rows/shape.h"

namespace warpconv::cuda::pointwise {

/** By products of FP16, chunk by chunk (fp16_kernel.cuh). */
struct RowsTile : RowsShape<16, 32> {
  static constexpr Family kFamily{"rows", FilterSource::parts};
  constexpr bool takes(int64_t /*channels*/, int64_t /*blockChannels*/) const { return true; }
  static constexpr std::span<const RowsTile> kernels();
  static bool isFor(const Matrix& matrix, const GpuTraits& traits);
  using Model = RowsModel;
  static constexpr Model defaultModel();
  double predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits, const Model& model) const;
  Kernel kernel(const KernelCase& given) const;
  constexpr bool operator==(const RowsTile&) const = default;
};

/**
 * Of those of 16 to 96 filters in chunks of one to eight steps, those that cost something to leave out
 * (docs/experiments.md). A step of zeros takes as long as any other.
 */
inline constexpr RowsTile kRowsTiles[] = {{{32, 3, 2}}, {{32, 4, 2}}, {{48, 3, 2}}, {{64, 4, 2}}};

constexpr std::span<const RowsTile> RowsTile::kernels() { return kRowsTiles; }

}  // namespace warpconv::cuda::pointwise
