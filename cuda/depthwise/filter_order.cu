#include "cuda/depthwise/arguments.h"

namespace warpconv::cuda::depthwise {
namespace {

constexpr int kOrderThreads = 256;

/** Thread i owns element i of the ordered filters: tap i / C of channel i % C. */
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(int channels, int taps, const float* filter, float* ordered) {
  const int64_t i = blockIdx.x * int64_t{kOrderThreads} + threadIdx.x;
  if (i < int64_t{taps} * channels) ordered[i] = filter[i % channels * taps + i / channels];
}

}  // namespace

cudaError_t launchFilterOrder(const Shape& shape, const float* filter, float* ordered, cudaStream_t stream) {
  const int taps = shape.r * shape.s;
  const auto blocks = static_cast<unsigned>((int64_t{taps} * shape.c + kOrderThreads - 1) / kOrderThreads);
  filterOrderKernel<<<blocks, kOrderThreads, 0, stream>>>(shape.c, taps, filter, ordered);
  return cudaGetLastError();
}

}  // namespace warpconv::cuda::depthwise
