#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/warpgroup/kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel WarpgroupTile::kernel(const KernelCase& given) const {
  const auto kernelFor = [&]<int kIndex, int kSplit, bool aligned, bool bounded>() -> Kernel {
    if constexpr (kWarpgroupTiles[kIndex].mayBePair(aligned)) {
      if (isPair(given.channels, given.aligned)) return warpgroupKernel<kIndex, kSplit, true, aligned, bounded>;
    }
    return warpgroupKernel<kIndex, kSplit, false, aligned, bounded>;
  };
  return findSplitKernel<kWarpgroupTiles>(*this, given, kernelFor);
}

}  // namespace warpconv::cuda::pointwise
