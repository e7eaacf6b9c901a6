#include "cuda/pointwise/dynamic/instances.cuh"

namespace warpconv::cuda::pointwise::detail {

Kernel pixelsKernel(const DynamicTile& tile) {
  constexpr auto belongs = [](const DynamicTile& x) { return x.layout == Layout::pixelsAcrossLanes; };
  return findDynamicKernel<belongs>(tile);
}

}  // namespace warpconv::cuda::pointwise::detail
