#pragma once

#include "cuda/kernel/launch.cuh"
#include "cuda/pointwise/stream/streamed_pixels.cuh"
#include "cuda/pointwise/stream/tensor_tile.h"
#include "cuda/pointwise/sum_again.cuh"
#include "cuda/tensor_core/tensor_sums.cuh"

namespace warpconv::cuda::pointwise {

/** Leaves the sums of all parts in the first one's place: other blocks' shared memory is too slow to read each from. */
template <TensorBlock block>
__device__ void addParts(float* shared) {
  constexpr int kPatch = block.m * block.n;
  for (int i = 4 * threadIdx.x; i < kPatch; i += 4 * block.threads()) {
    auto sum = AdjacentSums<4>::load(shared + i);
#pragma unroll
    for (int part = 1; part < block.parts; ++part) sum.add(shared + part * kPatch + i);
    sum.store(shared + i);
  }
}

/**
 * The scheme of stream_kernel.cuh on tensor cores: a warp has 8 channels at a time, of which its threads read the
 * pixels that are their operands, two times 8 channels ahead. Shared memory holds the filters of all the block's
 * channels, afterwards the sums of each part. A block adds its parts, in their order, and each block of the cluster
 * those of all, in the order of ranks, for its share of the outputs.
 */
template <int kIndex, bool aligned, bool bounded>
__global__ void __launch_bounds__(kStreamTensorTiles[kIndex].threads(), kStreamTensorTiles[kIndex].residentBlocks)
    streamTensorKernel(const Arguments x) {
  // Refused before 8.0, where nothing of it is compiled.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr StreamTensorTile tile = kStreamTensorTiles[kIndex];
  constexpr TensorBlock block = tile.block();
  constexpr int threads = block.threads();
  constexpr int kTurns = 2;
  constexpr int kColumns = TensorSums<block>::kColumns;
  extern __shared__ float4 memory[];
  __shared__ int offsets[block.n];
  float* const shared = reinterpret_cast<float*>(memory);

  const SplitTile own(x, block.m, block.n);
  const int products = own.steps(8);
  copyFilters<block.m, block.pitchM(), threads>(x, own, products * 8, shared);
  TensorSums<block> sums;
  const int share = (products + block.parts - 1) / block.parts;
  const int firstProduct = sums.part() * share;
  int left = min(products - firstProduct, share);
  const StreamedPixels<kColumns, aligned> input(x, own, own.firstPixel + sums.firstColumn());

  // Filters of channels beyond the last are zeros, and any pixel will do.
  const int lastChannel = own.endChannel - own.firstChannel - 1;
  int channel = firstProduct * 8 + sums.firstStep();
  float ahead[kTurns][2][kColumns];
  const auto load = [&](int turn, bool exists) {
#pragma unroll
    for (int half = 0; half < 2; ++half) input.load(min(channel + 4 * half, lastChannel), exists, ahead[turn][half]);
    channel += 8;
  };
  findOutputOffsets<block.n, threads>(x, own.firstPixel, own.group, offsets);
  bringArguments(x);
  waitForKernelsBefore();
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) load(turn, turn < left);
  waitForCopies<0>();
  __syncthreads();
  letNextKernelBegin();

  const float* rows = sums.ownRows(shared + firstProduct * 8 * block.pitchM());
#pragma unroll 1
  for (; left >= kTurns; left -= kTurns) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      sums.template addEight<kColumns>(rows, ahead[turn]);
      rows += 8 * block.pitchM();
      load(turn, turn + kTurns < left);
    }
  }
  static_assert(kTurns == 2);
  if (left > 0) sums.template addEight<kColumns>(rows, ahead[0]);

  __syncthreads();
  const bool finite = sums.write(shared);
  if (__syncthreads_or(!finite)) {
    sumNonFiniteAgain<block>(x, own, shared);
    __syncthreads();
  }
  if (x.split > 1) {
    if (block.parts > 1) addParts<block>(shared);
    synchroniseCluster(x.split);
  }
  storeTile<block.m, block.n, threads, bounded>(
      TileOutputs{x, own.group, offsets}, own.rank, x.split, [&](int row) { return own.firstFilter + row; },
      [&]<int kWidth>(int row, int column) {
        float* const staged = shared + row * block.n + column;
        return x.split > 1 ? sumOfShares<kWidth, 1>(staged, x.split, 0)
                           : sumOfShares<kWidth, block.parts>(staged, 1, block.m * block.n);
      });
  // Nobody leaves while another block still reads.
  if (x.split > 1) awaitClusterReads();
#endif
}

}  // namespace warpconv::cuda::pointwise
