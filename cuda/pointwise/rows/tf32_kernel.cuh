#pragma once

#include "cuda/pointwise/rows/held_row_pixels.cuh"
#include "cuda/pointwise/rows/rows_block.cuh"
#include "cuda/pointwise/rows/tf32_row_sums.cuh"
#include "cuda/pointwise/rows/tf32_tile.h"

namespace warpconv::cuda::pointwise {

/**
 * As rowsKernel, but by products of TF32, for blocks of so few channels that threads hold the pixels of all of them:
 * these are on their way together, and products begin with the first that are there. Of TF32 although tensor cores
 * multiply FP16 twice as fast: halves of that need a scale, which all lanes of a pixel agree on, and some 16 cycles a
 * number of the one warp that a scheduler has, while its tensor core waits. These need three instructions.
 */
template <int kIndex, int kSplit, bool aligned, bool bounded>
__global__ void __launch_bounds__(Tf32RowsTile::kThreads, kTf32RowsTiles[kIndex].residentBlocks)
    tf32RowsKernel(const __grid_constant__ Arguments x) {
  constexpr Tf32RowsTile kTile = kTf32RowsTiles[kIndex];
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2];

  RowsBlock<kTile, kSplit, aligned> block(x, memory, barriers);
  HeldRowPixels<kTile, aligned> pixels(x, block.own, block.endPixel);
  Tf32RowSums<kTile> sums;
  block.awaitKernelsBefore();
  pixels.load();
  letNextKernelBegin();
  block.awaitFilters();
  sums.add(
      block.filters, kTile.chunks(x.splitChannels), [&](int i) -> auto& { return pixels.chunk(i); });
  block.template store<bounded>([&](int p) { return sums.piece(p); });
}

}  // namespace warpconv::cuda::pointwise
