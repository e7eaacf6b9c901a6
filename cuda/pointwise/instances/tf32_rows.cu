#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/tf32_rows_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel tf32RowsKernelOf(const Tf32RowsTile& tile, int split, const Given& given) {
  return findKernel<kTf32RowsTiles>(tile, [&]<size_t index>() {
    return kernelOfSplit(split, [&]<int kSplit>() -> Kernel {
      if constexpr (kTf32RowsTiles[index].mayBeSplit(kSplit)) {
        return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
          return tf32RowsKernel<static_cast<int>(index), kSplit, aligned, bounded>;
        });
      }
      return nullptr;
    });
  });
}

}  // namespace warpconv::cuda::pointwise
