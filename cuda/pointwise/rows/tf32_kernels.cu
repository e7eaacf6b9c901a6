#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/rows/tf32_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel Tf32RowsTile::kernel(const KernelCase& given) const {
  const auto kernelFor = []<int kIndex, int kSplit, bool aligned, bool bounded>() -> Kernel {
    return tf32RowsKernel<kIndex, kSplit, aligned, bounded>;
  };
  return findSplitKernel<kTf32RowsTiles>(*this, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
