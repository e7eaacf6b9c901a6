#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/rows/fp16_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel RowsTile::kernel(const KernelCase& given) const {
  const auto kernelFor = []<int kIndex, int kSplit, bool aligned, bool bounded>() -> Kernel {
    return rowsKernel<kIndex, kSplit, aligned, bounded>;
  };
  return findSplitKernel<kRowsTiles>(*this, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
