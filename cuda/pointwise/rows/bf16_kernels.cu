#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/rows/bf16_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel Bf16RowsTile::kernel(const KernelCase& given) const {
  const auto kernelFor = []<int kIndex, bool aligned, bool bounded>() -> Kernel {
    return bf16RowsKernel<kIndex, aligned, bounded>;
  };
  return findGivenKernel<kBf16RowsTiles>(*this, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
