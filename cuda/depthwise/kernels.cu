#include <utility>

#include "cuda/depthwise/strips_kernel.cuh"
#include "cuda/depthwise/windows_kernel.cuh"

namespace warpconv::cuda::depthwise {
namespace {

template <typename Pair, int... kTile>
Kernel kernelOf(int tile, std::integer_sequence<int, kTile...>) {
  constexpr const Tile& kOfAny = kTiles[kTileCount - 1];
  static constexpr Kernel kKernels[] = {
      stripsKernel<Pair, kTiles[kTile].filter, kTiles[kTile].stride, kTiles[kTile].columns, kTiles[kTile].ahead,
                   kTiles[kTile].resident>...,
      windowsKernel<Pair, kOfAny.columns, kOfAny.resident>};
  return kKernels[tile];
}

}  // namespace

Kernel kernelOf(int tile, FloatType type) {
  constexpr auto kOfStrips = std::make_integer_sequence<int, kTileCount - 1>{};
  return type == FloatType::float16 ? kernelOf<Float16Pair>(tile, kOfStrips) : kernelOf<BFloat16Pair>(tile, kOfStrips);
}

}  // namespace warpconv::cuda::depthwise
