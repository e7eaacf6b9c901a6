#pragma once

#include "cuda/adjacent.cuh"
#include "cuda/launch.cuh"
#include "cuda/pointwise/streamed_pixels.cuh"
#include "cuda/pointwise/tiles.h"

namespace warpconv::cuda::pointwise {

/**
 * An extension for small problems, whose time is that of a block's way from its first load to its last store: pixels go
 * from global memory to registers, some channels ahead; filters go to shared memory before the kernels before are done;
 * and no barrier lies between the products. SplitTile says which tile a block has. Lane l of each warp has threadPixels
 * pixels from l * threadPixels on, and threadFilters filters; warps share out filters and, by slices, channels. Shared
 * memory holds the filters, channel by channel, afterwards the sums of each slice.
 */
template <int kIndex, bool aligned, bool bounded>
__global__ void __launch_bounds__(kStreamTiles[kIndex].threads(), kStreamTiles[kIndex].residentBlocks)
    streamKernel(const Arguments x) {
  constexpr StreamTile tile = kStreamTiles[kIndex];
  constexpr int filters = tile.filters(), pixels = tile.pixels(), threads = tile.threads();
  constexpr int threadFilters = tile.threadFilters, threadPixels = tile.threadPixels, slices = tile.slices;
  constexpr int kAhead = StreamTile::kChannelsAhead;
  extern __shared__ float4 memory[];
  __shared__ int offsets[pixels];
  float* const shared = reinterpret_cast<float*>(memory);

  const SplitTile own(x, filters, pixels);
  copyFilters<filters, filters, threads>(x, own, x.groupInputs, shared);
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int slice = warp % slices, firstFilter = warp / slices * threadFilters;
  const int sliceChannels = (x.groupInputs + slices - 1) / slices;
  int channel = slice * sliceChannels;
  int left = min(x.groupInputs - channel, sliceChannels);
  const StreamedPixels<threadPixels, aligned> input(x, own, own.firstPixel + lane * threadPixels);

  float ahead[kAhead][threadPixels];
  findOutputOffsets<pixels, threads>(x, own.firstPixel, own.group, offsets);
  bringArguments(x);
  waitForKernelsBefore();
#pragma unroll
  for (int i = 0; i < kAhead; ++i) input.load(channel + i, i < left, ahead[i]);
  waitForCopies<0>();
  __syncthreads();
  letNextKernelBegin();

  float sums[threadFilters][threadPixels] = {};
  const float* filter = shared + channel * filters + firstFilter;
  const auto multiply = [&](int i) {
    float ofFilters[threadFilters];
#pragma unroll
    for (int k = 0; k < threadFilters; k += 4) loadAdjacent<4>(ofFilters + k, filter + i * filters + k);
#pragma unroll
    for (int k = 0; k < threadFilters; ++k) {
#pragma unroll
      for (int j = 0; j < threadPixels; ++j) sums[k][j] = fmaf(ofFilters[k], ahead[i][j], sums[k][j]);
    }
  };
#pragma unroll 1
  for (; left >= kAhead; left -= kAhead) {
    channel += kAhead;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      multiply(i);
      input.load(channel + i, i + kAhead < left, ahead[i]);
    }
    filter += kAhead * filters;
  }
#pragma unroll
  for (int i = 0; i < kAhead - 1; ++i) {
    if (i < left) multiply(i);
  }

  __syncthreads();
  float* const staged = shared + (slice * filters + firstFilter) * pixels + lane * threadPixels;
#pragma unroll
  for (int k = 0; k < threadFilters; ++k) {
    storeAdjacent<threadPixels>(staged + k * pixels, sums[k]);
  }
  __syncthreads();
  storeTile<filters, pixels, threads, bounded>(
      x, own.group, offsets, 0, 1, [&](int row) { return own.firstFilter + row; },
      [&]<int kWidth>(int row, int column) {
        return sumOfShares<kWidth, slices>(shared + row * pixels + column, 1, filters * pixels);
      });
}

}  // namespace warpconv::cuda::pointwise
