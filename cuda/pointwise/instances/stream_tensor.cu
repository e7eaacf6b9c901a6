#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/stream_tensor_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel streamTensorKernelOf(const StreamTensorTile& tile, bool aligned) {
  return findKernel<kStreamTensorTiles>(tile, [&]<size_t index>() -> Kernel {
    return aligned ? streamTensorKernel<static_cast<int>(index), true>
                   : streamTensorKernel<static_cast<int>(index), false>;
  });
}

}  // namespace warpconv::cuda::pointwise
