#pragma once

#include "cuda/kernel/adjacent.cuh"
#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/pointwise/early_addresses.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/pointwise/stream/tile.h"

namespace warpconv::cuda::pointwise {

/**
 * Copies a block's filters to `shared`: four of each channel that a thread may hold, slice by slice, then the next
 * four. Zeros where there is no such channel or filter. They are the plan's own, which no kernel before can be writing:
 * a block that is launched early has them on their way, and waits for them by waitForCopies, before the kernels before
 * are done.
 */
template <StreamTile kTile>
__device__ void copyFilterQuads(const Arguments& x, const SplitTile& own, int sliceChannels, float* shared) {
  constexpr int kQuads = kTile.filters / 4;
  const float* const weight = x.weight + (own.copy + own.group * x.groupInputs * x.weightPitch + own.firstFilter);
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile.mostChannels() * kQuads; i += kTile.threads()) {
    const int quad = i % kQuads, held = i / kQuads;
    const int ofSlice = held % kTile.threadChannels, channel = held / kTile.threadChannels * sliceChannels + ofSlice;
    const bool exists =
        ofSlice < sliceChannels && channel < x.groupInputs && own.firstFilter + 4 * quad < x.weightPitch;
    copyOrZero<16>(shared + 4 * (quad * kTile.mostChannels() + held), weight + channel * x.weightPitch + 4 * quad,
                   exists);
  }
  commitCopies();
}

/** A thread's pixels, adjacent ones, of the channels from `first` on that it holds. */
template <int kPixels, int kChannels, bool aligned>
class HeldPixels {
 public:
  /** Pixels beyond the last are the last, which is of no consequence since they are not stored. */
  __device__ HeldPixels(const Arguments& x, int group, int firstPixel, int firstChannel) {
    const auto offsetOf = [&](int i) { return inputOffset(x, min(firstPixel + i, x.pixels - kAtOnce), group); };
    const int offset = offsetOf(0);
    const char* const first = asBytes(x.input + (offset + firstChannel * x.inputArea));
    uint64_t all = 0;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      at_[c] = reinterpret_cast<const float*>(first + int64_t{4 * c} * x.inputArea);
      all ^= reinterpret_cast<uint64_t>(at_[c]);
    }
#pragma unroll
    for (int i = 1; i < kPieces; ++i) further_[i] = offsetOf(i) - offset;
    keepEarly(all);
  }

  /** `count` channels, and zeros in place of those after. Only after waitForKernelsBefore. */
  __device__ void load(int count) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
#pragma unroll
      for (int i = 0; i < kPixels; ++i) values_[c][i] = 0.0f;
      if (c >= count) continue;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        loadAdjacent<kAtOnce>(values_[c] + i * kAtOnce, at_[c] + (i == 0 ? 0 : further_[i]));
      }
    }
  }

  __device__ const float (&operator[](int channel) const)[kPixels] { return values_[channel]; }

 private:
  static constexpr int kAtOnce = aligned ? kPixels : 1, kPieces = kPixels / kAtOnce;

  const float* at_[kChannels];
  /** From a channel's first pixel to the others, where they are read one by one */
  int further_[kPieces];
  float values_[kChannels][kPixels];
};

/** Where a thread's pixels lie in the output, and how their sums become outputs. */
template <int kPixels, bool aligned, bool bounded>
class HeldOutputs {
 public:
  __device__ HeldOutputs(const Arguments& x, int group, int firstPixel)
      : epilogue_{x.bias, x.residual, x.activation},
        output_(x.output),
        outputArea_(x.outputArea),
        filters_(x.groupOutputs),
        group_(group * x.groupOutputs) {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      offsets_[i] = firstPixel + i < x.pixels ? outputOffset(x, firstPixel + i, group) : kBeyond;
    }
  }

  /** Of those of kCount filters from `filter` on that exist. */
  template <int kCount>
  __device__ void findBiases(int filter, float (&biases)[kCount]) const {
    if constexpr (bounded) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (filter + k < filters_) biases[k] = biasOf(epilogue_, group_ + filter + k);
      }
    }
  }

  /** Of the same filters. Together, so that they take few branches. */
  template <int kCount>
  __device__ void store(AdjacentSums<kPixels> (&sums)[kCount], int filter, const float (&biases)[kCount]) const {
    constexpr bool together = aligned && bounded;
    if constexpr (together) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
#pragma unroll
        for (float& sum : sums[k].x) sum += biases[k];
      }
      clampAll(sums, epilogue_.activation);
    }
    const int count = aligned && offsets_[0] == kBeyond ? 0 : filters_ - filter;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (k >= count) continue;
      const int channel = (filter + k) * outputArea_;
      if constexpr (!aligned) {
        finishEach(epilogue_, sums[k], group_ + filter + k, offsets_, channel, output_);
      } else {
        if constexpr (!together) finish(epilogue_, sums[k], group_ + filter + k, offsets_[0] + channel);
        sums[k].store(output_ + (offsets_[0] + channel));
      }
    }
  }

 private:
  const Epilogue epilogue_;
  float* const output_;
  const int outputArea_;
  /** Of a group, and those of the groups before */
  const int filters_, group_;
  int offsets_[kPixels];
};

/**
 * An extension for few channels, whose time is that of a block's way from its first load to its last store. A thread
 * holds adjacent pixels of all channels, or of a slice of them: all of its loads are under way at once, from addresses
 * found before the kernels before are done. Four filters at a time, which lie in shared memory by then, it makes whole
 * sums, and stores them, or leaves them to be added up where there are slices. Those of a block are warps side by side.
 */
template <int kIndex, bool aligned, bool bounded>
__global__ void __launch_bounds__(kStreamTiles[kIndex].threads(), kStreamTiles[kIndex].residentBlocks)
    streamKernel(const __grid_constant__ Arguments x) {
  constexpr StreamTile kTile = kStreamTiles[kIndex];
  constexpr int kPixels = kTile.threadPixels, kChannels = kTile.threadChannels, kSlices = kTile.slices;
  constexpr int kTilePixels = kTile.pixels();
  extern __shared__ float4 memory[];
  __shared__ int offsets[kSlices > 1 ? kTilePixels : 1];
  float* const staged = reinterpret_cast<float*>(memory) + kTile.filterFloats();

  const SplitTile own(x, kTile.filters, kTilePixels);
  const int sliceChannels = (x.groupInputs + kSlices - 1) / kSlices;
  copyFilterQuads<kTile>(x, own, sliceChannels, reinterpret_cast<float*>(memory));
  const int slice = threadIdx.x / (kTile.threads() / kSlices);
  const int column = threadIdx.x % (kTile.threads() / kSlices) * kPixels;
  const int channels = min(x.groupInputs - slice * sliceChannels, sliceChannels);
  HeldPixels<kPixels, kChannels, aligned> pixels(x, own.group, own.firstPixel + column, slice * sliceChannels);
  if constexpr (kSlices > 1) findOutputOffsets<kTilePixels, kTile.threads()>(x, own.firstPixel, own.group, offsets);
  bringArguments(x);
  waitForCopies<0>();
  __syncthreads();
  waitForKernelsBefore();
  pixels.load(channels);
  letNextKernelBegin();

  const HeldOutputs<kPixels, aligned, bounded> outputs(x, own.group, own.firstPixel + column);
  const float4* quads = memory + slice * kChannels;
#pragma unroll 1
  for (int first = 0; first < kTile.filters; first += 4, quads += kTile.mostChannels()) {
    AdjacentSums<kPixels> sums[4]{};
    float biases[4]{};
    if constexpr (kSlices == 1) outputs.findBiases(own.firstFilter + first, biases);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      if (c % 4 == 0 && c >= channels) break;
      const float4 ofFilters = quads[c];
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        sums[0].x[i] = fmaf(ofFilters.x, pixels[c][i], sums[0].x[i]);
        sums[1].x[i] = fmaf(ofFilters.y, pixels[c][i], sums[1].x[i]);
        sums[2].x[i] = fmaf(ofFilters.z, pixels[c][i], sums[2].x[i]);
        sums[3].x[i] = fmaf(ofFilters.w, pixels[c][i], sums[3].x[i]);
      }
    }
    if constexpr (kSlices > 1) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        storeAdjacent<kPixels>(staged + (slice * kTile.filters + first + k) * kTilePixels + column, sums[k].x);
      }
    } else {
      outputs.store(sums, own.firstFilter + first, biases);
    }
  }
  if constexpr (kSlices > 1) {
    __syncthreads();
    storeTile<kTile.filters, kTilePixels, kTile.threads(), bounded>(
        TileOutputs{x, own.group, offsets}, 0, 1, [&](int row) { return own.firstFilter + row; },
        [&]<int kWidth>(int row, int at) {
          return sumOfShares<kWidth, kSlices>(staged + row * kTilePixels + at, 1, kTile.filters * kTilePixels);
        });
  }
}

}  // namespace warpconv::cuda::pointwise
