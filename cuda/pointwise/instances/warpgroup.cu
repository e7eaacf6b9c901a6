#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/warpgroup_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel warpgroupKernelOf(const WarpgroupTile& tile, int split, bool isPair, const Given& given) {
  const auto kernelFor = [&]<int kIndex, int kSplit, bool aligned, bool bounded>() -> Kernel {
    if constexpr (kWarpgroupTiles[kIndex].mayBePair(aligned)) {
      if (isPair) return warpgroupKernel<kIndex, kSplit, true, aligned, bounded>;
    }
    return warpgroupKernel<kIndex, kSplit, false, aligned, bounded>;
  };
  return findSplitKernel<kWarpgroupTiles>(tile, split, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
