#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/stream/kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel StreamTile::kernel(const KernelCase& given) const {
  const auto kernelFor = []<int kIndex, bool aligned, bool bounded>() -> Kernel {
    return streamKernel<kIndex, aligned, bounded>;
  };
  return findGivenKernel<kStreamTiles>(*this, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
