#include "cuda/pointwise/bf16_rows_kernel.cuh"
#include "cuda/pointwise/instances/find_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel bf16RowsKernelOf(const Bf16RowsTile& tile, const Given& given) {
  const auto kernelFor = []<int kIndex, bool aligned, bool bounded>() -> Kernel {
    return bf16RowsKernel<kIndex, aligned, bounded>;
  };
  return findGivenKernel<kBf16RowsTiles>(tile, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
