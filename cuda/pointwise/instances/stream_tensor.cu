#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/stream_tensor_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel streamTensorKernelOf(const StreamTensorTile& tile, const Given& given) {
  const auto kernelFor = []<int kIndex, bool aligned, bool bounded>() -> Kernel {
    return streamTensorKernel<kIndex, aligned, bounded>;
  };
  return findGivenKernel<kStreamTensorTiles>(tile, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
