#include "cuda/pointwise/find_kernel.cuh"
#include "cuda/pointwise/fma/kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel FmaTile::kernel(const KernelCase& given) const {
  return findKernel<kFmaTiles>(*this, [&]<size_t index>() -> Kernel {
    constexpr FmaTile own = kFmaTiles[index];
    const auto instance = [&]<bool isAligned>() -> Kernel {
      return fmaKernel<own.filters, own.pixels, own.threadFilters, own.threadPixels, own.slices, own.channels,
                       own.stages, own.residentBlocks(), isAligned>;
    };
    return given.aligned ? instance.template operator()<true>() : instance.template operator()<false>();
  });
}

}  // namespace warpconv::cuda::pointwise
