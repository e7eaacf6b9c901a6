#include "cuda/pointwise/tensor/tile.h"

#include "cuda/pointwise/gemm_prediction.h"

namespace warpconv::cuda::pointwise {

bool TensorTile::isFor(const Matrix& matrix, const GpuTraits& traits) { return isForTensorCores(matrix, traits); }

double TensorTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                           const Model& model) const {
  const int64_t held = blocksHeld(*this, candidate.sharedBytes, traits);
  return predictGemm(matrix, candidate, gemmKernelOf(model, block, held), traits);
}

Tiles TensorTile::describe(const Candidate& candidate) const {
  return {
      {"filters", block.m}, {"pixels", block.n}, {"channels", block.k}, {"stages", stages}, {"split", candidate.split}};
}

}  // namespace warpconv::cuda::pointwise
