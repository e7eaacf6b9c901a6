#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/rows_kernel.cuh"

namespace warpconv::cuda::pointwise {

namespace {

template <int kIndex, int kSplit>
Kernel kernelOf(const Given& given) {
  if constexpr (kRowsTiles[kIndex].mayBeSplit(kSplit)) {
    return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
      return rowsKernel<kIndex, kSplit, aligned, bounded>;
    });
  }
  return nullptr;
}

}  // namespace

Kernel rowsKernelOf(const RowsTile& tile, int split, const Given& given) {
  return findKernel<kRowsTiles>(tile, [&]<size_t index>() {
    constexpr int kIndex = static_cast<int>(index);
    if (split == 1) return kernelOf<kIndex, 1>(given);
    if (split == 2) return kernelOf<kIndex, 2>(given);
    return split == 4 ? kernelOf<kIndex, 4>(given) : kernelOf<kIndex, 8>(given);
  });
}

}  // namespace warpconv::cuda::pointwise
