#include "cuda/tensor_core/tensor_core.cuh"
#include "cuda/tensor_core/window_filter_order.h"

namespace warpconv::cuda {
namespace {

constexpr int kThreads = 256;

/** Thread i owns ordered element i = (g * length + step) * pitch + k. */
__global__ void __launch_bounds__(kThreads)
    filterOrderKernel(Shape x, int pitch, int length, bool rounded, const float* filter, float* ordered) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= int64_t{x.groups} * length * pitch) return;
  const int k = static_cast<int>(i % pitch);
  const int step = static_cast<int>(i / pitch % length);
  const int g = static_cast<int>(i / pitch / length);
  const int r = step % x.r;
  const int s = step / x.r % x.s;
  const int c = step / x.r / x.s;
  float value = 0.0f;
  if (k < x.groupOutputs && c < x.groupInputs) {
    value = filter[((int64_t{g} * x.groupOutputs + k) * x.groupInputs + c) * x.r * x.s + r * x.s + s];
  }
  ordered[i] = rounded ? roundForTf32(value) : value;
}

}  // namespace

void launchWindowFilterOrder(const Shape& x, int pitch, int length, bool rounded, const float* filter, float* ordered,
                             cudaStream_t stream) {
  const int64_t elements = int64_t{x.groups} * length * pitch;
  const auto blocks = static_cast<unsigned>((elements + kThreads - 1) / kThreads);
  filterOrderKernel<<<blocks, kThreads, 0, stream>>>(x, pitch, length, rounded, filter, ordered);
}

}  // namespace warpconv::cuda
