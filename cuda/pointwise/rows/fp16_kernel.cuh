#pragma once

#include "cuda/pointwise/rows/fp16_row_sums.cuh"
#include "cuda/pointwise/rows/fp16_tile.h"
#include "cuda/pointwise/rows/row_pixels.cuh"
#include "cuda/pointwise/rows/rows_block.cuh"

namespace warpconv::cuda::pointwise {

/**
 * Products of FP16. Pixels never lie in shared memory: each thread reads those that its registers are to hold as a
 * first operand, two chunks ahead, and splits them. So there is no barrier between a load and the product that takes
 * it.
 */
template <int kIndex, int kSplit, bool aligned, bool bounded>
__global__ void __launch_bounds__(RowsTile::kThreads, kRowsTiles[kIndex].residentBlocks)
    rowsKernel(const __grid_constant__ Arguments x) {
  constexpr RowsTile kTile = kRowsTiles[kIndex];
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2];

  RowsBlock<kTile, kSplit, aligned> block(x, memory, barriers);
  using Pixels = RowPixels<kTile, aligned>;
  Pixels pixels(x, block.own, block.endPixel);
  const typename Pixels::Addresses first = pixels.addressesOf(0), second = pixels.addressesOf(1);
  Pixels::keep(first, second);
  RowSums<kTile> sums;
  block.awaitKernelsBefore();
  typename Pixels::Chunk chunks[2];
  pixels.load(chunks[0], first);
  pixels.load(chunks[1], second);
  letNextKernelBegin();
  block.awaitFilters();
  uint32_t chunkFilters = block.filters;
  int next = 2;
#pragma unroll 1
  for (int left = kTile.chunks(x.splitChannels); left > 0; left -= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i >= left) break;
      const RowOperand<kTile> operand = Pixels::split(chunks[i]);
      if (left > i + 2) pixels.load(chunks[i], pixels.addressesOf(next++));
      sums.add(chunkFilters, operand);
      chunkFilters += kTile.chunkSteps * kTile.halves().stepBytes();
    }
  }
  block.template store<bounded>([&](int p) { return sums.piece(p); });
}

}  // namespace warpconv::cuda::pointwise
