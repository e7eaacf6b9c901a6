#pragma once

#include "cuda/kernel/cluster.cuh"
#include "cuda/pointwise/fma/tile.h"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/stage_copies.cuh"

namespace warpconv::cuda::pointwise {

/** Loads `count` floats, 2, or 4 and multiples of it that lie `stride` apart. */
template <int count, int stride>
__device__ inline void loadFragment(float* to, const float* from) {
  if constexpr (count == 2) {
    const float2 both = *reinterpret_cast<const float2*>(from);
    to[0] = both.x, to[1] = both.y;
  } else {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i / 4 * stride);
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  }
}

/** Where a thread's outputs lie in the tile, as constants. */
template <int filters, int pixels, int threadFilters, int threadPixels>
struct GemmThreads {
  static constexpr int kRows = filters / threadFilters;
  static constexpr int kColumns = pixels / threadPixels;
  /** Lanes are 4 x 8 where that fits: few different addresses in each load of either side. */
  static constexpr int kLaneRows = kRows % 4 == 0 ? 4 : kRows % 2 == 0 ? 2 : 1;
  static constexpr int kLaneColumns = kWarpSize / kLaneRows;
  static constexpr int kWarpRows = kRows / kLaneRows;
  static constexpr int kWarpColumns = kColumns / kLaneColumns;
  static_assert(kWarpColumns * kLaneColumns == kColumns && kWarpRows * kLaneRows == kRows);
  /** A thread has its filters and pixels in pieces of at most four neighbours, one piece each from all lanes in turn.
   */
  static constexpr int kRowPiece = threadFilters < 4 ? threadFilters : 4;
  static constexpr int kColumnPiece = threadPixels < 4 ? threadPixels : 4;
  static constexpr int kRowStride = kLaneRows * kRowPiece;
  static constexpr int kColumnStride = kLaneColumns * kColumnPiece;

  /** A thread's slice, and its first filter and pixel of the tile; `stagedRow` is its first among single pieces. */
  struct Place {
    int slice, row, column, stagedRow;
  };

  /** Found again whenever it is needed: the compiler would keep it in registers that the sums need. */
  static __device__ Place place() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    const int lane = thread % kWarpSize;
    const int warp = thread % (kRows * kColumns) / kWarpSize;
    const int laneRow = lane / kLaneColumns;
    const int warpRow = warp / kWarpColumns;
    return {thread / (kRows * kColumns), warpRow * kLaneRows * threadFilters + laneRow * kRowPiece,
            warp % kWarpColumns * kLaneColumns * threadPixels + lane % kLaneColumns * kColumnPiece,
            (warpRow * kLaneRows + laneRow) * kRowPiece};
  }
};

/**
 * Finishes and stores a thread's own sums, for activations so cheap that they may be inlined for each: `filter` and
 * `offsets` are those of its first. A piece's lanes write 128 neighbouring bytes.
 */
template <class Threads, int threadFilters, int threadPixels>
__device__ void storeFromRegisters(const Arguments& x, int group, int filter, const int* offsets,
                                   float (&sums)[threadFilters][threadPixels]) {
  const auto storeEach = [&](auto addResidual) {
#pragma unroll
    for (int j = 0; j < threadPixels; j += 4) {
      const int offset = offsets[j / 4 * Threads::kColumnStride];
      if (offset == kBeyond) continue;
#pragma unroll
      for (int i = 0; i < threadFilters; ++i) {
        const int own = filter + i / Threads::kRowPiece * Threads::kRowStride + i % Threads::kRowPiece;
        if (own >= x.groupOutputs) continue;
        const float bias = x.bias == nullptr ? 0.0f : x.bias[group * x.groupOutputs + own];
        const int index = offset + own * x.outputArea;
        AdjacentSums<4> four;
#pragma unroll
        for (int e = 0; e < 4; ++e) four.x[e] = sums[i][j + e] + bias;
        addResidual(four, index);
#pragma unroll
        for (int e = 0; e < 4; ++e) four.x[e] = clamp(four.x[e], x.activation);
        four.store(x.output + index);
      }
    }
  };
  if (x.residual == nullptr) {
    storeEach([](AdjacentSums<4>&, int) {});
  } else {
    storeEach([&](AdjacentSums<4>& four, int index) { four.add(x.residual + index); });
  }
}

/**
 * An extension of the paper's scheme for GPUs with many multiprocessors: larger thread tiles, asynchronous copies some
 * stages ahead, and two ways to spread an output's channels: over `slices` groups of a block's warps and over the
 * blocks of a thread-block cluster. One block owns a tile of `filters` x `pixels` (SplitTile says which). Shared memory
 * holds `stages` times `channels` channels of
 * filters, then of pixels; afterwards the sums of each slice, one piece of each thread's rows at a time, which all
 * blocks of the cluster add in the order of ranks and slices, each for its share of the outputs.
 * Channels, filters and pixels beyond the last are copied as zeros on both sides and not stored.
 */
template <int filters, int pixels, int threadFilters, int threadPixels, int slices, int channels, int stages,
          int residentBlocks, bool aligned>
__global__ void __launch_bounds__(filters / threadFilters * (pixels / threadPixels) * slices, residentBlocks)
    fmaKernel(const Arguments x) {
  using Threads = GemmThreads<filters, pixels, threadFilters, threadPixels>;
  constexpr int sliceThreads = Threads::kRows * Threads::kColumns;
  constexpr int threads = sliceThreads * slices;
  constexpr int sliceChannels = channels / slices;
  extern __shared__ float4 memory[];
  __shared__ int offsets[pixels];
  float* const shared = reinterpret_cast<float*>(memory);

  const SplitTile own(x, filters, pixels);
  using Copies = StageCopies<filters, filters, pixels, pixels, channels, stages, threads, aligned>;
  // Slices have many channels a stage: unrolled, their addresses would take registers that large tiles need.
  constexpr int unrolled = slices == 1 ? 8 : threadFilters * threadPixels < 64 ? 2 : 1;
  const Copies copies(x, shared, own);

  const auto reading = Threads::place();
  float sums[threadFilters][threadPixels] = {};
  const auto meanwhile = [&] { findOutputOffsets<pixels, threads>(x, own.firstPixel, own.group, offsets); };
  copies.template forEachStage<unrolled>(own.steps(channels), meanwhile, [&](const float* stage) {
    const float* const filterSide = stage + reading.slice * sliceChannels * filters + reading.row;
    const float* const pixelSide = stage + channels * filters + reading.slice * sliceChannels * pixels + reading.column;
#pragma unroll
    for (int c = 0; c < sliceChannels; ++c) {
      float ofFilters[threadFilters];
      float ofPixels[threadPixels];
      loadFragment<threadFilters, Threads::kRowStride>(ofFilters, filterSide + c * filters);
      loadFragment<threadPixels, Threads::kColumnStride>(ofPixels, pixelSide + c * pixels);
#pragma unroll
      for (int i = 0; i < threadFilters; ++i) {
#pragma unroll
        for (int j = 0; j < threadPixels; ++j) sums[i][j] = fmaf(ofFilters[i], ofPixels[j], sums[i][j]);
      }
    }
  });
  const auto writing = Threads::place();

  if constexpr (aligned && slices == 1) {
    if (x.split == 1 && isClamp(x.activation)) {
      storeFromRegisters<Threads, threadFilters, threadPixels>(x, own.group, own.firstFilter + writing.row,
                                                               offsets + writing.column, sums);
      return;
    }
  }

  // Row r of what is staged is piece p of the rows of thread row r / kRowPiece.
  constexpr int rows = Threads::kRows * Threads::kRowPiece;
#pragma unroll
  for (int p = 0; p < threadFilters / Threads::kRowPiece; ++p) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Threads::kRowPiece; ++i) {
#pragma unroll
      for (int j = 0; j < threadPixels; j += Threads::kColumnPiece) {
        float* const to = shared + (writing.slice * rows + writing.stagedRow + i) * pixels + writing.column +
                          j / 4 * Threads::kColumnStride;
        const float* const from = sums[p * Threads::kRowPiece + i] + j;
        if constexpr (threadPixels == 2) {
          *reinterpret_cast<float2*>(to) = {from[0], from[1]};
        } else {
          *reinterpret_cast<float4*>(to) = {from[0], from[1], from[2], from[3]};
        }
      }
    }
    synchroniseCluster(x.split);
    storeTile<rows, pixels, threads>(
        TileOutputs{x, own.group, offsets}, own.rank, x.split,
        [&](int row) {
          const int ofWarp = row / Threads::kRowStride * (Threads::kLaneRows * threadFilters);
          return own.firstFilter + ofWarp + p * Threads::kRowStride + row % Threads::kRowStride;
        },
        [&]<int kWidth>(int row, int column) {
          return sumOfShares<kWidth, slices>(shared + row * pixels + column, x.split, rows * pixels);
        });
    // Nobody leaves or writes while another block still reads.
    if (x.split > 1) awaitClusterReads();
  }
}

}  // namespace warpconv::cuda::pointwise
