#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/stream_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel streamKernelOf(const StreamTile& tile, const Given& given) {
  return findKernel<kStreamTiles>(tile, [&]<size_t index>() {
    return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
      return streamKernel<static_cast<int>(index), aligned, bounded>;
    });
  });
}

}  // namespace warpconv::cuda::pointwise
