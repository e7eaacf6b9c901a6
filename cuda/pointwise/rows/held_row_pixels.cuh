#pragma once

#include "cuda/kernel/adjacent.cuh"
#include "cuda/pointwise/early_addresses.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/rows/row_outputs.cuh"
#include "cuda/pointwise/rows/shape.h"
#include "cuda/pointwise/split_tile.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A thread's share of a block's pixels, straight from global memory to the registers that products take them from: its
 * two pixels of the channels that it has of each step. All of them are loaded at once, from addresses that are found
 * before.
 */
template <auto kTile, bool aligned>
class HeldRowPixels {
  /** Of a step, those of a thread: two of BF16's, or one of TF32's, of each of the step's two planes */
  static constexpr int kChannels = kTile.kStepChannels / 4, kOfPlane = kChannels / 2;

 public:
  /** Pixels beyond the block's are its last, whose sums are nobody's; channels beyond the last are the last. */
  __device__ HeldRowPixels(const Arguments& x, const SplitTile& own, int endPixel)
      : steps_(own.steps(kTile.kStepChannels)) {
    const int firstChannel = own.firstChannel + threadIdx.x % 4 * kOfPlane, last = x.groupInputs - 1 - firstChannel;
    const auto offsetOf = [&](int i) {
      return inputOffset(x, min(own.firstPixel + rowPixel<aligned>(i), endPixel - kAtOnce), own.group);
    };
    const int first = offsetOf(0);
    second_ = offsetOf(aligned ? 0 : 1) - first;
    const char* const firstByte = asBytes(x.input + (first + firstChannel * x.inputArea));
    uint64_t all = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const int channel = step * kTile.kStepChannels + i / kOfPlane * (kTile.kStepChannels / 2) + i % kOfPlane;
        const int64_t bytes = int64_t{4 * min(channel, last)} * x.inputArea;
        addresses_[step][i] = reinterpret_cast<const float*>(firstByte + bytes);
        all ^= reinterpret_cast<uint64_t>(addresses_[step][i]) << step % 8;
      }
    }
    keepEarly(all + steps_);
  }

  /** Zeros beyond the block's channels, whose filters here may be another's. */
  __device__ void load() {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        float(&two)[2] = pixels_[step / kTile.chunkSteps][step % kTile.chunkSteps][i];
        loadOrZero<kAtOnce>(two, addresses_[step][i], step < steps_);
        if constexpr (!aligned) loadOrZero<1>(two + 1, addresses_[step][i] + second_, step < steps_);
      }
    }
  }

  /** Of a chunk's steps, of its channels, both pixels. */
  __device__ const float (&chunk(int i) const)[kTile.chunkSteps][kChannels][2] { return pixels_[i]; }

 private:
  static constexpr int kAtOnce = aligned ? 2 : 1, kSteps = kTile.mostChunks * kTile.chunkSteps;

  /** Of the block */
  const int steps_;
  const float* addresses_[kSteps][kChannels];
  /** From a channel's first pixel to its second, where they are read one by one */
  int second_;
  float pixels_[kTile.mostChunks][kTile.chunkSteps][kChannels][2];
};

}  // namespace warpconv::cuda::pointwise
