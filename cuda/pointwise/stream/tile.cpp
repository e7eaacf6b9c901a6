#include "cuda/pointwise/stream/tile.h"

#include <algorithm>

#include "cuda/pointwise/candidate.h"
#include "cuda/pointwise/matrix.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {

bool StreamTile::isFor(const Matrix& /*matrix*/, const GpuTraits& /*traits*/) { return true; }

double StreamTile::predict(const Matrix& matrix, const Candidate& candidate, const GpuTraits& traits,
                           const Model& model) const {
  const auto blocks = static_cast<double>(candidate.blocks);
  const auto most = static_cast<double>(ceilDivide(candidate.blocks, traits.multiprocessors));
  const auto sliceChannels = static_cast<double>(ceilDivide(matrix.channels, slices));
  const double slots = sliceChannels * filters * threadPixels + model.warp;
  // Each of a multiprocessor's four parts issues for a warp of its own.
  const double warps = std::max(most * threads() / kWarpSize, 4.0);
  const double joined = slices > 1 ? model.joined * most * 4.0 * slices * filters * pixels() : 0.0;
  const double stored = model.stored * 4 * static_cast<double>(matrix.groups * matrix.filters * matrix.pixels);
  const double read = model.read * 4 * blocks * static_cast<double>(matrix.channels * (filters + pixels()));
  return 1e3 * (model.block + warps * slots * matrix.instructionSeconds + joined + stored + read);
}

Tiles StreamTile::describe(const Candidate& /*candidate*/) const {
  return {{"filters", filters}, {"pixels", pixels()}, {"slices", slices}};
}

}  // namespace warpconv::cuda::pointwise
