#include "cuda/pointwise/dynamic/instances.cuh"

namespace warpconv::cuda::pointwise {

Kernel DynamicTile::kernel(const KernelCase& /*given*/) const {
  for (const auto part : {detail::fewChannelsKernel, detail::manyChannelsKernel, detail::pixelsKernel}) {
    if (const Kernel found = part(*this)) return found;
  }
  return nullptr;
}

}  // namespace warpconv::cuda::pointwise
