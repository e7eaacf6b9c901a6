#pragma once

#include <iterator>
#include <utility>

#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise {

/** `kernelAt<index>()` of the tile's index in `tiles`. */
template <const auto& tiles>
Kernel findKernel(const auto& wanted, auto&& kernelAt) {
  Kernel found = nullptr;
  const auto consider = [&]<size_t index>() {
    if (tiles[index] == wanted) found = kernelAt.template operator()<index>();
  };
  [&]<size_t... indices>(std::index_sequence<indices...>) { (consider.template operator()<indices>(), ...); }
  (std::make_index_sequence<std::size(tiles)>());
  return found;
}

/** `kernelFor<split>()` of so many blocks of a cluster. */
Kernel kernelOfSplit(int split, auto&& kernelFor) {
  if (split == 1) return kernelFor.template operator()<1>();
  if (split == 2) return kernelFor.template operator()<2>();
  return split == 4 ? kernelFor.template operator()<4>() : kernelFor.template operator()<8>();
}

/** `kernelFor<aligned, bounded>()` of the case. */
Kernel kernelGiven(const KernelCase& given, auto&& kernelFor) {
  if (given.aligned) {
    return given.bounded ? kernelFor.template operator()<true, true>() : kernelFor.template operator()<true, false>();
  }
  return given.bounded ? kernelFor.template operator()<false, true>() : kernelFor.template operator()<false, false>();
}

/** `kernelFor<index, aligned, bounded>()` of the tile and the case. */
template <const auto& tiles>
Kernel findGivenKernel(const auto& wanted, const KernelCase& given, auto&& kernelFor) {
  return findKernel<tiles>(wanted, [&]<size_t index>() {
    return kernelGiven(given, [&]<bool aligned, bool bounded>() {
      return kernelFor.template operator()<static_cast<int>(index), aligned, bounded>();
    });
  });
}

/** `kernelFor<index, split, aligned, bounded>()` of all that, of tiles that may be split so. */
template <const auto& tiles>
Kernel findSplitKernel(const auto& wanted, const KernelCase& given, auto&& kernelFor) {
  return findKernel<tiles>(wanted, [&]<size_t index>() {
    return kernelOfSplit(given.split, [&]<int kSplit>() -> Kernel {
      if constexpr (tiles[index].mayBeSplit(kSplit)) {
        return kernelGiven(given, [&]<bool aligned, bool bounded>() {
          return kernelFor.template operator()<static_cast<int>(index), kSplit, aligned, bounded>();
        });
      }
      return nullptr;
    });
  });
}

}  // namespace warpconv::cuda::pointwise
