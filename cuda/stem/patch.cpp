#include "cuda/stem/patch.h"

#include "divide.h"

namespace warpconv::cuda::stem {
namespace {

int64_t pairsOf(const ConvProblem& x) { return ceilDivide(x.s, 2); }

}  // namespace

Patch patchOf(const ConvProblem& x, const StemTile& tile) {
  Patch patch;
  patch.step = x.stride.w % 2 == 0 ? 2 : 1;
  patch.rows = (tile.rows - 1) * x.stride.h + (x.r - 1) * x.dilation.h + 1;
  patch.pairs = pairsOf(x);
  const int64_t last = (kWarpColumns - 1) * x.stride.w + 2 * (patch.pairs - 1) * x.dilation.w;
  patch.words = last / patch.step + 1;
  patch.channels = x.groupInputs();
  return patch;
}

int64_t wordsEach(const Patch& patch, const StemTile& tile) { return ceilDivide(patch.size(), tile.threads()); }

int64_t pairOffset(const ConvProblem& x, const Patch& patch, int64_t c, int64_t r, int64_t pair) {
  return (c * patch.rows + r * x.dilation.h) * patch.words + 2 * pair * x.dilation.w / patch.step;
}

int64_t stepsOf(const ConvProblem& x) { return ceilDivide(x.groupInputs() * x.r * pairsOf(x), kStepPairs); }

}  // namespace warpconv::cuda::stem
