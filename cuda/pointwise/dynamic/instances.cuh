#pragma once

#include <utility>

#include "cuda/pointwise/dynamic/kernel.cuh"
#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise::detail {

// Parts of the list, for the compiler to work on side by side: null for the tiles of the others.
Kernel fewChannelsKernel(const DynamicTile& tile);
Kernel manyChannelsKernel(const DynamicTile& tile);
Kernel pixelsKernel(const DynamicTile& tile);

/** The kernel of `wanted` among the tiles of the list that `belongs` picks; only those are compiled. */
template <auto belongs, size_t... indices>
Kernel findDynamicKernel(const DynamicTile& wanted, std::index_sequence<indices...>) {
  Kernel found = nullptr;
  const auto consider = [&]<size_t index>() {
    constexpr DynamicTile tile = kDynamicTiles[index];
    if constexpr (belongs(tile)) {
      if (tile == wanted) found = dynamicKernel<tile.layout, tile.channels, tile.elements, tile.height>;
    }
  };
  (consider.template operator()<indices>(), ...);
  return found;
}

template <auto belongs>
Kernel findDynamicKernel(const DynamicTile& wanted) {
  return findDynamicKernel<belongs>(wanted, std::make_index_sequence<kDynamicTiles.size()>());
}

}  // namespace warpconv::cuda::pointwise::detail
