#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/tensor/kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel TensorTile::kernel(const KernelCase& given) const {
  return findKernel<kTensorTiles>(*this, [&]<size_t index>() -> Kernel {
    return given.aligned ? tensorKernel<static_cast<int>(index), true> : tensorKernel<static_cast<int>(index), false>;
  });
}

}  // namespace warpconv::cuda::pointwise
