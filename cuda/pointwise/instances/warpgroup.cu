#include "cuda/pointwise/instances/find_kernel.cuh"
#include "cuda/pointwise/warpgroup_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel warpgroupKernelOf(const WarpgroupTile& tile, bool aligned) {
  return findKernel<kWarpgroupTiles>(tile, [&]<size_t index>() -> Kernel {
    return aligned ? warpgroupKernel<static_cast<int>(index), true> : warpgroupKernel<static_cast<int>(index), false>;
  });
}

}  // namespace warpconv::cuda::pointwise
