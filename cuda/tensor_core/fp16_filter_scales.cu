#include "cuda/tensor_core/fp16_filter_scales.h"
#include "cuda/tensor_core/fp16_split.cuh"

namespace warpconv::cuda {
namespace {

constexpr int kThreads = 256;

/** Block (block of outputs, counted through the groups, k) has one filter. */
__global__ void __launch_bounds__(kThreads)
    filterScaleKernel(Shape x, int outputBlocks, int blockM, const float* filter, float* inverses) {
  __shared__ float largest[kThreads / 32];
  const int group = blockIdx.x / outputBlocks, k = blockIdx.x % outputBlocks * blockM + blockIdx.y;
  const int64_t elements = int64_t{x.groupInputs} * x.r * x.s;
  filter += (int64_t{group} * x.groupOutputs + k) * elements;
  float most = 0.0f;
  for (int64_t i = threadIdx.x; k < x.groupOutputs && i < elements; i += kThreads) {
    if (isfinite(filter[i])) most = fmaxf(most, fabsf(filter[i]));
  }
  most = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(most)));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (float other : largest) most = fmaxf(most, other);
  inverses[int64_t{blockIdx.x} * blockM + blockIdx.y] = inverseOf(scaleFor(most));
}

}  // namespace

void launchFilterScales(const Shape& shape, int outputBlocks, int blockM, const float* filter, float* inverses,
                        cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(shape.groups * outputBlocks), rows = static_cast<unsigned>(blockM);
  filterScaleKernel<<<dim3(blocks, rows), kThreads, 0, stream>>>(shape, outputBlocks, blockM, filter, inverses);
}

}  // namespace warpconv::cuda
