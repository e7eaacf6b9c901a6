#include "cuda/pointwise/bf16_rows_kernel.cuh"
#include "cuda/pointwise/instances/find_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel bf16RowsKernelOf(const Bf16RowsTile& tile, const Given& given) {
  return findKernel<kBf16RowsTiles>(tile, [&]<size_t index>() {
    return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
      return bf16RowsKernel<static_cast<int>(index), aligned, bounded>;
    });
  });
}

}  // namespace warpconv::cuda::pointwise
