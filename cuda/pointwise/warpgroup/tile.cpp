#include "cuda/pointwise/warpgroup/tile.h"

#include <algorithm>

#include "cuda/pointwise/candidate.h"
#include "cuda/pointwise/matrix.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {

bool WarpgroupTile::isFor(const Matrix& matrix, const GpuTraits& traits) { return isForWarpgroups(matrix, traits); }

double WarpgroupTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                              const Model& model) const {
  const int64_t channels = channelsOfBlock(matrix.channels, unitChannels(), candidate.split);
  const auto most = static_cast<double>(ceilDivide(candidate.blocks, multiprocessorsInUse(traits, candidate.split)));
  const double atOnce = std::min(most, static_cast<double>(blocksHeld(*this, candidate.sharedBytes, traits)));
  const double taken = isPair(channels, matrix.aligned) ? model.pair : chunks(channels);
  const double multiply = taken * model.chunk * (1 + model.shared * (atOnce - 1));
  const double tileBytes = 4.0 * kFilters * pixels, blocks = static_cast<double>(candidate.blocks);
  const double sent = tileBytes * (candidate.split - 1) / candidate.split;
  const double store = model.stored * tileBytes / candidate.split * atOnce * (matrix.aligned ? 1.0 : model.unaligned);
  const double read = model.read * 4 * blocks * static_cast<double>(channels * (kFilters + pixels));
  return 1e3 * (most / atOnce * (model.block + multiply + store + model.exchanged * sent * atOnce) + read);
}

Tiles WarpgroupTile::describe(const Candidate& candidate) const {
  return {{"filters", kFilters}, {"pixels", pixels}, {"split", candidate.split}};
}

}  // namespace warpconv::cuda::pointwise
