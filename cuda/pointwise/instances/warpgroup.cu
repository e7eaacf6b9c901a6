#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/warpgroup_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel warpgroupKernelOf(const WarpgroupTile& tile, int split, const Given& given) {
  return findKernel<kWarpgroupTiles>(tile, [&]<size_t index>() {
    return kernelOfSplit(split, [&]<int kSplit>() -> Kernel {
      return kernelGiven(given, []<bool aligned, bool bounded>() -> Kernel {
        return warpgroupKernel<static_cast<int>(index), kSplit, aligned, bounded>;
      });
    });
  });
}

}  // namespace warpconv::cuda::pointwise
