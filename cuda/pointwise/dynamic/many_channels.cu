#include "cuda/pointwise/dynamic/instances.cuh"

namespace warpconv::cuda::pointwise::detail {

Kernel manyChannelsKernel(const DynamicTile& tile) {
  constexpr auto belongs = [](const DynamicTile& x) {
    return x.layout == Layout::filtersAcrossLanes && x.channels > 2;
  };
  return findDynamicKernel<belongs>(tile);
}

}  // namespace warpconv::cuda::pointwise::detail
