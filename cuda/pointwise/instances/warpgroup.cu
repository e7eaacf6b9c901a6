#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/warpgroup_kernel.cuh"

namespace warpconv::cuda::pointwise {

namespace {

template <int kIndex, int kSplit>
Kernel kernelOf(const Given& given) {
  return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
    return warpgroupKernel<kIndex, kSplit, aligned, bounded>;
  });
}

}  // namespace

Kernel warpgroupKernelOf(const WarpgroupTile& tile, int split, const Given& given) {
  return findKernel<kWarpgroupTiles>(tile, [&]<size_t index>() {
    constexpr int kIndex = static_cast<int>(index);
    if (split == 1) return kernelOf<kIndex, 1>(given);
    if (split == 2) return kernelOf<kIndex, 2>(given);
    return split == 4 ? kernelOf<kIndex, 4>(given) : kernelOf<kIndex, 8>(given);
  });
}

}  // namespace warpconv::cuda::pointwise
