#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/stream_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel streamKernelOf(const StreamTile& tile, const Given& given) {
  const auto kernelFor = []<int kIndex, bool aligned, bool bounded>() -> Kernel {
    return streamKernel<kIndex, aligned, bounded>;
  };
  return findGivenKernel<kStreamTiles>(tile, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
