#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/tf32_rows_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel tf32RowsKernelOf(const Tf32RowsTile& tile, int split, const Given& given) {
  const auto kernelFor = []<int kIndex, int kSplit, bool aligned, bool bounded>() -> Kernel {
    return tf32RowsKernel<kIndex, kSplit, aligned, bounded>;
  };
  return findSplitKernel<kTf32RowsTiles>(tile, split, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
