#include "cuda/pointwise/stream/tensor_tile.h"

#include "cuda/pointwise/gemm_prediction.h"

namespace warpconv::cuda::pointwise {

bool StreamTensorTile::isFor(const Matrix& matrix, const GpuTraits& traits) { return isForTensorCores(matrix, traits); }

double StreamTensorTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                                 const Model& model) const {
  const int64_t held = blocksHeld(*this, candidate.sharedBytes, traits);
  return predictGemm(matrix, candidate, gemmKernelOf(model, block(), held), traits);
}

Tiles StreamTensorTile::describe(const Candidate& candidate) const {
  return {{"filters", m}, {"pixels", n}, {"slices", parts}, {"split", candidate.split}};
}

}  // namespace warpconv::cuda::pointwise
