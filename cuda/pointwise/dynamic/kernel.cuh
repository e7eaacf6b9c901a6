#pragma once

#include "cuda/pointwise/dynamic/tile.h"
#include "cuda/pointwise/pixel_offsets.cuh"

namespace warpconv::cuda::pointwise {

/**
 * Adds up the sums of the `lanes` neighbouring lanes that share them. While there are enough, a lane keeps one half of
 * its `count` sums and gives its partner the other, so that each step moves half as many as the one before; the last
 * steps add the same sums in both partners. Returns the index of what is in sums[0]; the sums that follow it are in the
 * registers after it. A recursion, because registers need constant indices.
 */
template <int lanes, int count>
__device__ int reduceSegment(float* sums) {
  constexpr int mask = lanes / 2;
  if constexpr (lanes == 1) {
    return 0;
  } else if constexpr (count % 2 == 0) {
    constexpr int kept = count / 2;
    const bool upper = (threadIdx.x & mask) != 0;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      const float given = upper ? sums[i] : sums[kept + i];
      const float own = upper ? sums[kept + i] : sums[i];
      sums[i] = own + __shfl_xor_sync(0xffffffffu, given, mask);
    }
    return (upper ? kept : 0) + reduceSegment<mask, kept>(sums);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], mask);
    return reduceSegment<mask, count>(sums);
  }
}

/** How many of `count` sums a lane has left. */
template <int lanes, int count>
inline constexpr int kSumsLeft = count;
template <int lanes, int count>
requires(lanes > 1 && count % 2 == 0) inline constexpr int kSumsLeft<lanes, count> = kSumsLeft<lanes / 2, count / 2>;

/** A tile's extents as constants: device code cannot call the tile's functions. */
template <Layout layout, int channels, int elements, int height>
struct DynamicExtents {
  static constexpr DynamicTile kTile{layout, channels, elements, height};
  static constexpr bool kFiltersAcross = layout == Layout::filtersAcrossLanes;
  static constexpr int kFilters = kTile.blockFilters();
  static constexpr int kPixels = kTile.blockPixels();
  static constexpr int kElementLanes = kTile.elementLanes();
  static constexpr int kWarpWidth = kTile.blockWidth() / 2;
  static constexpr int kBlockHeight = kTile.blockHeight();
  static constexpr int kWidePitch = kTile.widePitch();
  static constexpr int kBufferFloats = kTile.bufferFloats();
  /** Behind all else */
  static constexpr int kOffsets = static_cast<int>(kTile.sharedBytes() / 4) - kPixels;
  static constexpr int kResidentBlocks = kTile.residentBlocks();
};

/**
 * Copies C_num channels of one side of a tile, `extent` wide, from device memory into registers and from there into
 * shared memory: element i = threadIdx.x + 128 * r is channel i / extent, column i % extent.
 */
template <int channels, int extent, int pitch>
struct ChannelCopy {
  static constexpr int kThreads = DynamicTile::kDynamicThreads;
  static constexpr int kCount = (channels * extent + kThreads - 1) / kThreads;
  float held[kCount];

  /** `at(channel, column)` reads an element, or gives zero outside. */
  __device__ void load(auto at) {
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      const int i = threadIdx.x + r * kThreads;
      held[r] = i < channels * extent ? at(i / extent, i % extent) : 0.0f;
    }
  }

  __device__ void store(float* shared) const {
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      const int i = threadIdx.x + r * kThreads;
      if (i < channels * extent) shared[i / extent * pitch + i % extent] = held[r];
    }
  }
};

/**
 * The paper's kernel. Block b owns filters [f * F, f * F + F) of group g, f = b % filterTiles, g = b / filterTiles %
 * groups, and `iterations` tiles of P pixels from pixel b / (filterTiles * groups) * iterations * P on (F and P of the
 * tile). Its warps lie 2 x 2 over the tile. Lane l of a warp adds up channels l % C_num, l % C_num + C_num, …, of the
 * elements l / C_num + (32 / C_num) * t of the wide side, t < T_num, times Warp_H of the other side. Shared memory
 * holds two buffers of C_num channels of both sides, channel by channel, and afterwards the sums, filter by filter.
 * Channels, filters and pixels beyond the last are copied as zeros on both sides and not stored.
 */
template <Layout layout, int channels, int elements, int height>
__global__ void __launch_bounds__(DynamicTile::kDynamicThreads,
                                  DynamicExtents<layout, channels, elements, height>::kResidentBlocks)
    dynamicKernel(const Arguments x) {
  using Extents = DynamicExtents<layout, channels, elements, height>;
  constexpr bool filtersAcross = Extents::kFiltersAcross;
  constexpr int filters = Extents::kFilters;
  constexpr int pixels = Extents::kPixels;
  constexpr int widePitch = Extents::kWidePitch;
  constexpr int wideFloats = channels * widePitch;
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory);
  int* const offsets = reinterpret_cast<int*>(shared + Extents::kOffsets);

  const int group = blockIdx.x / x.filterTiles % x.groups;
  const int firstFilter = blockIdx.x % x.filterTiles * filters;
  const float* const weight = x.weight + group * x.groupInputs * x.weightPitch;
  const int lane = threadIdx.x % kWarpSize;
  const int warp = threadIdx.x / kWarpSize;
  const int channel = lane % channels;
  const int wideStart = channel * widePitch + warp % 2 * Extents::kWarpWidth + lane / channels;
  const int highStart = wideFloats + channel * Extents::kBlockHeight + warp / 2 * height;

  for (int iteration = 0; iteration < x.iterations; ++iteration) {
    const int firstPixel = (blockIdx.x / (x.filterTiles * x.groups) * x.iterations + iteration) * pixels;
    if (firstPixel >= x.pixels) break;
    // 128 is a multiple of a power of two of pixels: each thread copies one pixel only.
    static_assert(DynamicTile::kDynamicThreads % pixels == 0);
    const int ownPixel = firstPixel + threadIdx.x % pixels;
    const bool ownPixelExists = ownPixel < x.pixels;
    const float* const ownInput = x.input + (ownPixelExists ? inputOffset(x, ownPixel, group) : 0);

    ChannelCopy<channels, filters, filtersAcross ? widePitch : Extents::kBlockHeight> filterCopy;
    ChannelCopy<channels, pixels, filtersAcross ? Extents::kBlockHeight : widePitch> pixelCopy;
    const auto load = [&](int firstChannel) {
      filterCopy.load([&](int c, int k) {
        const bool exists = firstChannel + c < x.groupInputs && firstFilter + k < x.weightPitch;
        return exists ? weight[(firstChannel + c) * x.weightPitch + firstFilter + k] : 0.0f;
      });
      pixelCopy.load([&](int c, int) {
        const bool exists = firstChannel + c < x.groupInputs && ownPixelExists;
        return exists ? ownInput[(firstChannel + c) * x.inputArea] : 0.0f;
      });
    };
    const auto store = [&](float* buffer) {
      filterCopy.store(buffer + (filtersAcross ? 0 : wideFloats));
      pixelCopy.store(buffer + (filtersAcross ? wideFloats : 0));
    };

    float sums[elements * height] = {};
    load(0);
    findOutputOffsets<pixels, DynamicTile::kDynamicThreads>(x, firstPixel, group, offsets);
    store(shared);
    __syncthreads();
    float* current = shared;
    float* next = shared + Extents::kBufferFloats;
    for (int first = 0; first < x.groupInputs; first += channels) {
      const bool more = first + channels < x.groupInputs;
      if (more) load(first + channels);
      float wide[elements];
      float high[height];
#pragma unroll
      for (int t = 0; t < elements; ++t) wide[t] = current[wideStart + t * Extents::kElementLanes];
#pragma unroll
      for (int i = 0; i < height; ++i) high[i] = current[highStart + i];
#pragma unroll
      for (int t = 0; t < elements; ++t) {
#pragma unroll
        for (int i = 0; i < height; ++i) sums[t * height + i] = fmaf(wide[t], high[i], sums[t * height + i]);
      }
      if (more) store(next);
      __syncthreads();
      float* const spent = current;
      current = next;
      next = spent;
    }

    // Found anew: kept through the loop above, they and the addresses of an unrolled loop of stores are spilled by the
    // largest tiles.
    int thread = threadIdx.x;
    asm volatile("" : "+r"(thread));
    const int lane = thread % kWarpSize, warp = thread / kWarpSize;
    const int firstSum = reduceSegment<channels, elements * height>(sums);
#pragma unroll
    for (int i = 0; i < kSumsLeft<channels, elements * height>; ++i) {
      const int across =
          warp % 2 * Extents::kWarpWidth + lane / channels + (firstSum + i) / height * Extents::kElementLanes;
      const int along = warp / 2 * height + (firstSum + i) % height;
      shared[filtersAcross ? across * pixels + along : along * pixels + across] = sums[i];
    }
    __syncthreads();
    storeTile<filters, pixels, DynamicTile::kDynamicThreads, false, true>(
        TileOutputs{x, group, offsets}, 0, 1, [&](int row) { return firstFilter + row; },
        [&]<int kWidth>(int row, int column) { return AdjacentSums<kWidth>::load(shared + row * pixels + column); });
    __syncthreads();
  }
}

}  // namespace warpconv::cuda::pointwise
