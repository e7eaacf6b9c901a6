#include "cuda/pointwise/fma/tile.h"

#include "cuda/pointwise/gemm_prediction.h"

namespace warpconv::cuda::pointwise {

bool FmaTile::isFor(const Matrix& /*matrix*/, const GpuTraits& /*traits*/) { return true; }

double FmaTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                        const Model& model) const {
  const GemmKernel kernel{model,
                          filters,
                          pixels,
                          channels,
                          threads(),
                          slices,
                          blocksHeld(*this, candidate.sharedBytes, traits),
                          double(channels) * threadFilters * threadPixels / slices};
  return predictGemm(matrix, candidate, kernel, traits);
}

Tiles FmaTile::describe(const Candidate& candidate) const {
  return {
      {"filters", filters}, {"pixels", pixels}, {"channels", channels}, {"stages", stages}, {"split", candidate.split}};
}

}  // namespace warpconv::cuda::pointwise
