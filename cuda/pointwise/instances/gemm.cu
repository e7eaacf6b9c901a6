#include <utility>

#include "cuda/pointwise/gemm_kernel.cuh"
#include "cuda/pointwise/kernels.h"

namespace warpconv::cuda::pointwise {
namespace {

template <bool aligned, size_t... indices>
Kernel findGemmKernel(const GemmTile& wanted, std::index_sequence<indices...>) {
  Kernel found = nullptr;
  const auto consider = [&]<size_t index>() {
    constexpr GemmTile tile = kGemmTiles[index];
    if (tile == wanted) {
      found = gemmKernel<tile.filters, tile.pixels, tile.threadFilters, tile.threadPixels, tile.slices, tile.channels,
                         tile.stages, tile.residentBlocks(), aligned>;
    }
  };
  (consider.template operator()<indices>(), ...);
  return found;
}

}  // namespace

Kernel gemmKernelOf(const GemmTile& tile, bool aligned) {
  constexpr auto indices = std::make_index_sequence<std::size(kGemmTiles)>();
  return aligned ? findGemmKernel<true>(tile, indices) : findGemmKernel<false>(tile, indices);
}

}  // namespace warpconv::cuda::pointwise
