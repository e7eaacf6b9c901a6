#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/rows_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel rowsKernelOf(const RowsTile& tile, int split, const Given& given) {
  return findKernel<kRowsTiles>(tile, [&]<size_t index>() {
    return kernelOfSplit(split, [&]<int kSplit>() -> Kernel {
      if constexpr (kRowsTiles[index].mayBeSplit(kSplit)) {
        return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
          return rowsKernel<static_cast<int>(index), kSplit, aligned, bounded>;
        });
      }
      return nullptr;
    });
  });
}

}  // namespace warpconv::cuda::pointwise
