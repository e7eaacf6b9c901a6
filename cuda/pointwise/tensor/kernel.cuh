#pragma once

#include "cuda/kernel/cluster.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/stage_copies.cuh"
#include "cuda/pointwise/sum_again.cuh"
#include "cuda/pointwise/tensor/tile.h"
#include "cuda/tensor_core/tensor_sums.cuh"

namespace warpconv::cuda::pointwise {

/**
 * The extension's scheme (fma/kernel.cuh) on tensor cores: SplitTile says which tile and channels a block has. Shared
 * memory holds the stages of copies, afterwards the sums of every part, which all blocks of the cluster add in the
 * order of ranks and parts, each for its share of the outputs.
 */
template <int kIndex, bool aligned>
__global__ void __launch_bounds__(kTensorTiles[kIndex].threads(), kTensorTiles[kIndex].residentBlocks)
    tensorKernel(const Arguments x) {
  // Refused before 8.0, where nothing of it is compiled.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr TensorTile tile = kTensorTiles[kIndex];
  constexpr TensorBlock block = tile.block;
  constexpr int threads = tile.threads();
  extern __shared__ float4 memory[];
  __shared__ int offsets[block.n];
  float* const shared = reinterpret_cast<float*>(memory);
  const SplitTile own(x, block.m, block.n);

  using Copies = StageCopies<block.m, block.pitchM(), block.n, block.pitchN(), block.k, tile.stages, threads, aligned>;
  const Copies copies(x, shared, own);
  TensorSums<block> sums;
  const auto meanwhile = [&] { findOutputOffsets<block.n, threads>(x, own.firstPixel, own.group, offsets); };
  copies.template forEachStage<tile.unrolledCopies()>(own.steps(block.k), meanwhile, [&](const float* stage) {
    sums.addTile(stage, stage + block.k * block.pitchM());
  });

  __syncthreads();
  const bool finite = sums.write(shared);
  if (__syncthreads_or(!finite)) sumNonFiniteAgain<block>(x, own, shared);
  synchroniseCluster(x.split);
  storeTile<block.m, block.n, threads>(
      TileOutputs{x, own.group, offsets}, own.rank, x.split, [&](int row) { return own.firstFilter + row; },
      [&]<int kWidth>(int row, int column) {
        return sumOfShares<kWidth, block.parts>(shared + row * block.n + column, x.split, block.m * block.n);
      });
  // Nobody leaves while another block still reads.
  if (x.split > 1) awaitClusterReads();
#endif
}

}  // namespace warpconv::cuda::pointwise
