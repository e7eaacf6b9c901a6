#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/stream_tensor_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel streamTensorKernelOf(const StreamTensorTile& tile, const Given& given) {
  return findKernel<kStreamTensorTiles>(tile, [&]<size_t index>() {
    return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
      return streamTensorKernel<static_cast<int>(index), aligned, bounded>;
    });
  });
}

}  // namespace warpconv::cuda::pointwise
