#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/stream_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel streamKernelOf(const StreamTile& tile, bool aligned) {
  return findKernel<kStreamTiles>(tile, [&]<size_t index>() -> Kernel {
    return aligned ? streamKernel<static_cast<int>(index), true> : streamKernel<static_cast<int>(index), false>;
  });
}

}  // namespace warpconv::cuda::pointwise
