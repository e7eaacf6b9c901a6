#include "cuda/pointwise/matrix.h"

#include "cuda/pointwise/tile.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

double tensorBytesOf(const ConvProblem& x) {
  return 4.0 * static_cast<double>(x.groups * (x.n * x.p * x.q * (x.groupInputs() + x.groupOutputs()) +
                                               x.groupInputs() * x.groupOutputs()));
}

}  // namespace

Matrix matrixOf(const ConvProblem& x, const GpuTraits& traits) {
  return {x.groupOutputs(),
          x.n * x.p * x.q,
          x.groupInputs(),
          x.groups,
          ceilDivide(x.outputSize(), traits.multiprocessors),
          x.stride.h == 1 && x.stride.w == 1 && x.p * x.q % 4 == 0,
          tensorBytesOf(x),
          2.0 * kWarpSize * traits.multiprocessors / traits.flopsPerSecond};
}

int64_t tilesOf(const Matrix& x, int64_t filters, int64_t pixels) {
  return x.groups * ceilDivide(x.filters, filters) * ceilDivide(x.pixels, pixels);
}

}  // namespace warpconv::cuda::pointwise
