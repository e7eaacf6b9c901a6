#include "cuda/fp16_filter_scales.h"
#include "cuda/fp16_split.cuh"
#include "cuda/pointwise/filter_halves.h"
#include "cuda/pointwise/tiles.h"

namespace warpconv::cuda::pointwise {
namespace {

constexpr int kThreads = 256;
constexpr int kFilters = WarpgroupTile::kFilters;
/** Of a step's high halves, or low ones */
constexpr int kHalfWords = WarpgroupTile::kStepBytes / 8;

/** Thread i owns word i of the high halves, and the same of the low ones. */
__global__ void __launch_bounds__(kThreads) filterHalvesKernel(Shape s, int filterTiles, int steps, const float* weight,
                                                               const float* inverses, uint32_t* halves) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t step = i / kHalfWords, tile = step / steps;
  if (tile >= int64_t{s.groups} * filterTiles) return;
  const int ofStep = static_cast<int>(i % kHalfWords), row = ofStep / 4 % kFilters;
  const int group = static_cast<int>(tile / filterTiles), k = static_cast<int>(tile % filterTiles) * kFilters + row;
  const int c =
      static_cast<int>(step % steps) * WarpgroupTile::kStepChannels + ofStep / (4 * kFilters) * 8 + ofStep % 4 * 2;
  const auto weightOf = [&](int channel) {
    if (k >= s.groupOutputs || channel >= s.groupInputs) return 0.0f;
    return weight[(int64_t{group} * s.groupOutputs + k) * s.groupInputs + channel];
  };
  const Fp16Pairs pairs = splitFp16(weightOf(c), weightOf(c + 1), inverseOf(inverses[tile * kFilters + row]));
  uint32_t* const at = halves + step * 2 * kHalfWords + ofStep;
  at[0] = pairs.high;
  at[kHalfWords] = pairs.low;
}

}  // namespace

void launchFilterHalves(const Shape& shape, int filterTiles, int steps, const float* weight, uint32_t* halves,
                        float* inverses, cudaStream_t stream) {
  launchFilterScales(shape, filterTiles, kFilters, weight, inverses, stream);
  const int64_t words = int64_t{shape.groups} * filterTiles * steps * kHalfWords;
  const auto blocks = static_cast<unsigned>((words + kThreads - 1) / kThreads);
  filterHalvesKernel<<<blocks, kThreads, 0, stream>>>(shape, filterTiles, steps, weight, inverses, halves);
}

}  // namespace warpconv::cuda::pointwise
