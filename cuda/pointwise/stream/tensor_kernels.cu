#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/stream/tensor_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel StreamTensorTile::kernel(const KernelCase& given) const {
  const auto kernelFor = []<int kIndex, bool aligned, bool bounded>() -> Kernel {
    return streamTensorKernel<kIndex, aligned, bounded>;
  };
  return findGivenKernel<kStreamTensorTiles>(*this, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
