#pragma once

#include <utility>

#include "cuda/pointwise/rows/bf16_row_sums.cuh"
#include "cuda/pointwise/rows/bf16_tile.h"
#include "cuda/pointwise/rows/held_row_pixels.cuh"
#include "cuda/pointwise/rows/rows_block.cuh"

namespace warpconv::cuda::pointwise {

/**
 * As tf32RowsKernel, but by six products of BF16's thirds, for blocks of all channels where these are few: what two
 * halves leave out of a product is more than what so short a sum rounds off. They need no scale either. Stores take
 * longer than products here, and begin with the first group of filters.
 */
template <int kIndex, bool aligned, bool bounded>
__global__ void __launch_bounds__(Bf16RowsTile::kThreads, kBf16RowsTiles[kIndex].residentBlocks)
    bf16RowsKernel(const __grid_constant__ Arguments x) {
  constexpr Bf16RowsTile kTile = kBf16RowsTiles[kIndex];
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2];

  RowsBlock<kTile, 1, aligned> block(x, memory, barriers);
  HeldRowPixels<kTile, aligned> pixels(x, block.own, block.endPixel);
  Bf16RowSums<kTile> sums;
  const unsigned arguments = block.awaitKernelsBefore();
  letNextKernelBeginNow(arguments);
  pixels.load();
  block.awaitFilters();
  using Sums = decltype(sums);
  sums.begin(block.filters, pixels.chunk(0));
  [&]<int... group>(std::integer_sequence<int, group...>) {
    const auto storeGroup = [&]<int kGroup>() {
      sums.template await<kGroup>();
      block.template storeSome<bounded, kGroup * Sums::kGroupPieces, Sums::kGroupPieces>(
          [&](int p) { return sums.piece(p); });
      // Otherwise the compiler waits for the next group first.
      branchRarely(arguments);
    };
    (storeGroup.template operator()<group>(), ...);
  }
  (std::make_integer_sequence<int, Sums::kGroups>());
}

}  // namespace warpconv::cuda::pointwise
