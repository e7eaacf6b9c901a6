#include "cuda/halo/filter_element.cuh"
#include "cuda/tensor_core/fp16_filter_scales.h"
#include "cuda/tensor_core/fp16_split.cuh"

namespace warpconv::cuda::halo {
namespace {

constexpr int kOrderThreads = 256;

/** Thread i owns word i of the high halves, and the same of the low ones. */
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(Arguments x, int64_t words, const float* filter, const float* inverses, uint32_t* ordered) {
  const int64_t i = blockIdx.x * int64_t{kOrderThreads} + threadIdx.x;
  if (i >= words) return;
  const int64_t product = i / kHalfWords;
  const Shape& s = x.shape;
  const int taps = x.groups * kGroupTaps;
  const int tap = static_cast<int>(product % taps);
  const int chunk = static_cast<int>(product / taps % x.chunks);
  const int64_t block = product / taps / x.chunks;
  const int group = static_cast<int>(block / x.outputBlocks);
  const int row = static_cast<int>(i / 4 % kWarpgroupM);
  const int k = static_cast<int>(block % x.outputBlocks) * kWarpgroupM + row;
  const int c = chunk * kChunkChannels + static_cast<int>(i % kHalfWords / (4 * kWarpgroupM)) * 8 + i % 4 * 2;
  const auto weightOf = [&](int channel) {
    if (k >= s.groupOutputs || channel >= x.channels || x.tapIndex[tap] == kNoTap) return 0.0f;
    const FilterElement at = filterElement(x, x.tapIndex[tap], channel);
    if (!exists(x, at)) return 0.0f;
    return filter[(((int64_t{group} * s.groupOutputs + k) * s.groupInputs + at.map) * s.r + at.row) * s.s + at.column];
  };
  const Fp16Pairs pairs = splitFp16(weightOf(c), weightOf(c + 1), inverseOf(inverses[block * kWarpgroupM + row]));
  uint32_t* const at = ordered + product * 2 * kHalfWords + i % kHalfWords;
  at[0] = pairs.high;
  at[kHalfWords] = pairs.low;
}

}  // namespace

void launchFilterOrder(const Arguments& x, const float* filter, uint32_t* ordered, float* inverses,
                       cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(x.shape.groups * x.outputBlocks);
  launchFilterScales(x.shape, x.outputBlocks, kWarpgroupM, filter, inverses, stream);
  const int64_t words = int64_t{blocks} * x.chunks * x.groups * kGroupTaps * kHalfWords;
  const auto orderBlocks = static_cast<unsigned>((words + kOrderThreads - 1) / kOrderThreads);
  filterOrderKernel<<<orderBlocks, kOrderThreads, 0, stream>>>(x, words, filter, inverses, ordered);
}

}  // namespace warpconv::cuda::halo
