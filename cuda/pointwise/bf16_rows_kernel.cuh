#pragma once

#include "cuda/pointwise/bf16_row_sums.cuh"
#include "cuda/pointwise/held_row_pixels.cuh"
#include "cuda/pointwise/rows_block.cuh"

namespace warpconv::cuda::pointwise {

/**
 * As tf32RowsKernel, but by six products of BF16's thirds, for blocks of all channels where these are few: what two
 * halves leave out of a product is more than what so short a sum rounds off. They need no scale either.
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
  block.awaitKernelsBefore();
  pixels.load();
  letNextKernelBegin();
  block.awaitFilters();
  sums.make(block.filters, pixels.chunk(0));
  block.template store<bounded>([&](int p) { return sums.piece(p); });
}

}  // namespace warpconv::cuda::pointwise
