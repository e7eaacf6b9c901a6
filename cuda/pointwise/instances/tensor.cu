#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/tensor_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel tensorKernelOf(const TensorTile& tile, const Given& given) {
  return findKernel<kTensorTiles>(tile, [&]<size_t index>() -> Kernel {
    return given.aligned ? tensorKernel<static_cast<int>(index), true> : tensorKernel<static_cast<int>(index), false>;
  });
}

}  // namespace warpconv::cuda::pointwise
