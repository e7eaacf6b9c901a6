#include "cuda/stem/arguments.h"
#include "cuda/tensor_core/fp16_filter_scales.h"
#include "cuda/tensor_core/fp16_split.cuh"

namespace warpconv::cuda::stem {
namespace {

constexpr int kOrderThreads = 256;

/** Thread i owns word i of the high halves, and the same of the low ones. */
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(Arguments x, int blockM, int64_t words, const float* filter, const float* inverses,
                      uint32_t* ordered) {
  const int64_t i = blockIdx.x * int64_t{kOrderThreads} + threadIdx.x;
  if (i >= words) return;
  const Shape& s = x.shape;
  const int halfWords = kStepPairs * blockM;
  const int64_t step = i / halfWords, block = step / x.steps;
  const int group = static_cast<int>(block / x.outputBlocks);
  const int ofStep = static_cast<int>(i % halfWords), row = ofStep / 4 % blockM;
  const int k = static_cast<int>(block % x.outputBlocks) * blockM + row;
  const int pair = static_cast<int>(step % x.steps) * kStepPairs + ofStep / (4 * blockM) * 4 + ofStep % 4;
  const int c = pair / x.pairs / s.r, r = pair / x.pairs % s.r, column = pair % x.pairs * 2;
  const auto weightOf = [&](int column) {
    if (k >= s.groupOutputs || c >= s.groupInputs || column >= s.s) return 0.0f;
    return filter[(((int64_t{group} * s.groupOutputs + k) * s.groupInputs + c) * s.r + r) * s.s + column];
  };
  const Fp16Pairs halves = splitFp16(weightOf(column), weightOf(column + 1), inverseOf(inverses[block * blockM + row]));
  uint32_t* const at = ordered + step * 2 * halfWords + ofStep;
  at[0] = halves.high;
  at[halfWords] = halves.low;
}

}  // namespace

void launchFilterOrder(const Arguments& x, int blockM, const float* filter, uint32_t* ordered, float* inverses,
                       cudaStream_t stream) {
  launchFilterScales(x.shape, x.outputBlocks, blockM, filter, inverses, stream);
  const int64_t words = int64_t{x.shape.groups} * x.outputBlocks * x.steps * kStepPairs * blockM;
  const auto blocks = static_cast<unsigned>((words + kOrderThreads - 1) / kOrderThreads);
  filterOrderKernel<<<blocks, kOrderThreads, 0, stream>>>(x, blockM, words, filter, inverses, ordered);
}

}  // namespace warpconv::cuda::stem
