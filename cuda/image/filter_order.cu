#include "cuda/image/filter_order.h"
#include "cuda/kernel/half_pairs.cuh"

namespace warpconv::cuda::image {
namespace {

constexpr int kOrderThreads = 256;

/**
 * Thread i owns pair i of the ordered filters: row by row, and in a row channel by channel of the input, and row by row
 * of the window. Columns that make an odd number even, and what makes whole steps, are zeros.
 */
template <typename Pair>
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(Arguments x, int pairs, const float* filter, uint32_t* ordered) {
  const int i = blockIdx.x * kOrderThreads + threadIdx.x;
  if (i >= pairs) return;
  const int row = i / (x.filterPitch / 2), pair = i % (x.filterPitch / 2);
  const int k = channelOf(row), s = pair % x.windowPairs * 2;
  const int r = pair / x.windowPairs % x.r, c = pair / x.windowPairs / x.r;
  const bool exists = k < x.k && c < x.c;
  const float* const from = filter + ((int64_t{k} * x.c + c) * x.r + r) * x.s + s;
  ordered[i] = Pair::fromFloats(exists ? from[0] : 0.0f, exists && s + 1 < x.s ? from[1] : 0.0f);
}

}  // namespace

cudaError_t launchFilterOrder(const Arguments& x, FloatType type, const float* filter, void* ordered,
                              cudaStream_t stream) {
  const int pairs = x.filterRows * x.filterPitch / 2;
  const auto kernel = type == FloatType::bfloat16 ? filterOrderKernel<BFloat16Pair> : filterOrderKernel<Float16Pair>;
  kernel<<<static_cast<unsigned>((pairs + kOrderThreads - 1) / kOrderThreads), kOrderThreads, 0, stream>>>(
      x, pairs, filter, static_cast<uint32_t*>(ordered));
  return cudaGetLastError();
}

}  // namespace warpconv::cuda::image
