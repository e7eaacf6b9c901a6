#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/rows_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel rowsKernelOf(const RowsTile& tile, int split, const Given& given) {
  const auto kernelFor = []<int kIndex, int kSplit, bool aligned, bool bounded>() -> Kernel {
    return rowsKernel<kIndex, kSplit, aligned, bounded>;
  };
  return findSplitKernel<kRowsTiles>(tile, split, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
