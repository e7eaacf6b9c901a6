#include <algorithm>

#include "cuda/pointwise/candidate.h"
#include "cuda/pointwise/matrix.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

double predictRows(const Matrix& matrix, const Candidate& candidate, const auto& tile, const GpuTraits& traits,
                   const RowsModel& model) {
  const int64_t channels = channelsOfBlock(matrix.channels, tile.unitChannels(), candidate.split);
  const auto most = static_cast<double>(ceilDivide(candidate.blocks, multiprocessorsInUse(traits, candidate.split)));
  const double atOnce = std::min(most, static_cast<double>(blocksHeld(tile, candidate.sharedBytes, traits)));
  const double slower = (1 + model.shared * (atOnce - 1)) * (matrix.aligned ? 1.0 : model.unaligned);
  const double step = model.step + model.filter * tile.filters;
  const double steps = tile.chunks(channels) * (model.chunk + tile.chunkSteps * step) * slower;
  const double tileBytes = 4.0 * tile.filters * tile.kPixels, blocks = static_cast<double>(candidate.blocks);
  const double store = model.stored * tileBytes / candidate.split * slower;
  const double read = model.read * 4 * blocks * static_cast<double>(channels * (tile.filters + tile.kPixels));
  const double exchange = candidate.split > 1 ? model.exchanged * blocks * tileBytes : 0.0;
  return 1e3 * (most / atOnce * (model.block + steps + store) + read + exchange);
}

}  // namespace

bool RowsTile::isFor(const Matrix& matrix, const GpuTraits& traits) { return isForWarpgroups(matrix, traits); }

double RowsTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                         const Model& model) const {
  return predictRows(matrix, candidate, *this, traits, model);
}

bool Tf32RowsTile::isFor(const Matrix& matrix, const GpuTraits& traits) { return isForWarpgroups(matrix, traits); }

double Tf32RowsTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                             const Model& model) const {
  return predictRows(matrix, candidate, *this, traits, model);
}

bool Bf16RowsTile::isFor(const Matrix& /*matrix*/, const GpuTraits& traits) { return hasWarpgroupProducts(traits); }

double Bf16RowsTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                             const Model& model) const {
  return predictRows(matrix, candidate, *this, traits, model);
}

Tiles describeRows(const Patch& patch, const Candidate& candidate) {
  return {{"filters", patch.filters}, {"pixels", patch.pixels}, {"split", candidate.split}};
}

}  // namespace warpconv::cuda::pointwise
