#include "cuda/pointwise/gemm_kernel.cuh"
#include "cuda/pointwise/instances/find_kernel.cuh"

namespace warpconv::cuda::pointwise {

Kernel gemmKernelOf(const GemmTile& tile, const Given& given) {
  return findKernel<kGemmTiles>(tile, [&]<size_t index>() -> Kernel {
    constexpr GemmTile own = kGemmTiles[index];
    const auto instance = [&]<bool isAligned>() -> Kernel {
      return gemmKernel<own.filters, own.pixels, own.threadFilters, own.threadPixels, own.slices, own.channels,
                        own.stages, own.residentBlocks(), isAligned>;
    };
    return given.aligned ? instance.template operator()<true>() : instance.template operator()<false>();
  });
}

}  // namespace warpconv::cuda::pointwise
