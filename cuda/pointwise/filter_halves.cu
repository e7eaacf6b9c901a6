#include "cuda/pointwise/filter_halves.h"
#include "cuda/tensor_core/bf16_split.cuh"
#include "cuda/tensor_core/fp16_filter_scales.h"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/tensor_core.cuh"

namespace warpconv::cuda::pointwise {
namespace {

constexpr int kThreads = 256;

/** Thread i owns word i of the high halves, a channel of TF32 or two of others, and the same of the other parts. */
__global__ void __launch_bounds__(kThreads)
    filterHalvesKernel(Shape s, HalvesLayout layout, int filterTiles, int steps, const float* weight,
                       const float* inverses, uint32_t* halves) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int filters = layout.filters, partWords = layout.stepBytes() / (4 * layout.parts);
  const int64_t step = i / partWords, tile = step / steps;
  if (tile >= int64_t{s.groups} * filterTiles) return;
  const int ofStep = static_cast<int>(i % partWords), plane = ofStep / (4 * filters), ofPlane = ofStep % (4 * filters);
  const int group = static_cast<int>(tile / filterTiles), filter = ofPlane / 4;
  const int k = static_cast<int>(tile % filterTiles) * filters + filter;
  const int channels = layout.stepChannels / 8;
  const int c = (static_cast<int>(step % steps) * 8 + plane * 4 + ofPlane % 4) * channels;
  const auto weightOf = [&](int channel) {
    if (k >= s.groupOutputs || channel >= s.groupInputs) return 0.0f;
    return weight[(int64_t{group} * s.groupOutputs + k) * s.groupInputs + channel];
  };
  uint32_t* const at = halves + step * layout.parts * partWords + plane * (layout.planeBytes() / 4) + ofPlane;
  uint32_t* const lowAt = at + layout.lowBytes() / 4;
  if (layout.isBf16()) {
    const Bf16Thirds thirds = splitBf16(weightOf(c), weightOf(c + 1));
    for (int third = 0; third < 3; ++third) at[third * (layout.lowBytes() / 4)] = thirds.two[third];
  } else if (layout.isTf32()) {
    const Tf32Pair pair = splitTf32(weightOf(c));
    *at = pair.high, *lowAt = pair.low;
  } else {
    const Fp16Pairs pairs = splitFp16(weightOf(c), weightOf(c + 1), inverseOf(inverses[tile * filters + filter]));
    *at = pairs.high, *lowAt = pairs.low;
  }
}

}  // namespace

void launchFilterHalves(const Shape& shape, const HalvesLayout& layout, int filterTiles, int steps, const float* weight,
                        uint32_t* halves, float* inverses, cudaStream_t stream) {
  if (layout.isScaled()) launchFilterScales(shape, filterTiles, layout.filters, weight, inverses, stream);
  const int64_t words = int64_t{shape.groups} * filterTiles * steps * (layout.stepBytes() / (4 * layout.parts));
  const auto blocks = static_cast<unsigned>((words + kThreads - 1) / kThreads);
  filterHalvesKernel<<<blocks, kThreads, 0, stream>>>(shape, layout, filterTiles, steps, weight, inverses, halves);
}

}  // namespace warpconv::cuda::pointwise
