#pragma once

#include "cuda/kernel/adjacent.cuh"
#include "cuda/kernel/async_copy.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"

namespace warpconv::cuda::pointwise {

/**
 * Copies the filters of all channels of a block, filled up to `channels` by zeros, to `shared` as rows of a channel,
 * `pitch` apart. They are the plan's own, which no kernel before can be writing: a block that is launched early has
 * them on their way, and waits for them by waitForCopies, before the kernels before are done.
 */
template <int filters, int pitch, int threads>
__device__ void copyFilters(const Arguments& x, const SplitTile& own, int channels, float* shared) {
  constexpr int kPieces = filters / 4;
  const float* const weight = x.weight + (own.copy + own.group * x.groupInputs * x.weightPitch + own.firstFilter);
  for (int i = threadIdx.x; i < channels * kPieces; i += threads) {
    const int channel = i / kPieces;
    const int filter = i % kPieces * 4;
    const bool exists = own.firstChannel + channel < own.endChannel && own.firstFilter + filter < x.weightPitch;
    copyOrZero<16>(shared + channel * pitch + filter, weight + (own.firstChannel + channel) * x.weightPitch + filter,
                   exists);
  }
  commitCopies();
}

/**
 * kCount adjacent pixels of a thread, which it reads channel by channel from global memory. Pixels beyond the last are
 * the last, which is of no consequence since they are not stored.
 */
template <int kCount, bool aligned>
class StreamedPixels {
 public:
  __device__ StreamedPixels(const Arguments& x, const SplitTile& own, int firstPixel) : inputArea_(x.inputArea) {
#pragma unroll
    for (int i = 0; i < kPointers; ++i) {
      const int offset = inputOffset(x, min(firstPixel + i, x.pixels - kWidth), own.group);
      pixels_[i] = x.input + (offset + own.firstChannel * x.inputArea);
    }
  }

  /**
   * Of a channel of the block's, if it `exists`. Only after waitForKernelsBefore, which such loads do not overtake, as
   * those by __ldg may.
   */
  __device__ void load(int channel, bool exists, float (&to)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth) {
      const float* const from = pixels_[i / kWidth] + channel * inputArea_;
      if (exists) loadAdjacent<kWidth>(to + i, from);
    }
  }

 private:
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  /** Read at once */
  static constexpr int kWidth = aligned ? kCount : 1;
  static constexpr int kPointers = kCount / kWidth;

  const int inputArea_;
  const float* pixels_[kPointers];
};

}  // namespace warpconv::cuda::pointwise
