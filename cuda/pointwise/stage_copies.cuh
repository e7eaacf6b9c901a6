#pragma once

#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/split_tile.cuh"

namespace warpconv::cuda::pointwise {

/**
 * Fills stages of shared memory: `channels` rows of `filters` filters, `filterPitch` apart, then as many of `pixels`
 * pixels, `pixelPitch` apart. A thread copies the same piece of pixels, four or one, of every channelsApart-th channel;
 * with more pixels than threads, ownPieces of them. Filters and pixels beyond the last, and channels from the
 * block's last on, are zeros.
 */
template <int filters, int filterPitch, int pixels, int pixelPitch, int channels, int stages, int threads, bool aligned>
class StageCopies {
 public:
  static constexpr int kStageFloats = channels * (filterPitch + pixelPitch);

  __device__ StageCopies(const Arguments& x, float* shared, const SplitTile& own)
      : x_(x),
        shared_(shared),
        weight_(x.weight + own.group * x.groupInputs * x.weightPitch + own.firstFilter),
        firstFilter_(own.firstFilter),
        firstChannel_(own.firstChannel),
        endChannel_(own.endChannel) {
#pragma unroll
    for (int i = 0; i < kOwnPieces; ++i) {
      const int pixel = own.firstPixel + (threadIdx.x % kPieces + i * threads) * kPiece;
      ownExists_[i] = pixel < x.pixels;
      ownInput_[i] = ownExists_[i] ? inputOffset(x, pixel, own.group) : 0;
    }
  }

  /**
   * Copies `steps` stages, some ahead, and calls use(stage) for each once it is there; `meanwhile` while the first ones
   * are on their way.
   */
  template <int unrolled>
  __device__ void forEachStage(int steps, const auto& meanwhile, const auto& use) const {
    // Filters are the plan's own, which no kernel before can be writing.
    for (int step = 0; step < min(stages - 1, steps); ++step) copyFilters(step);
    waitForKernelsBefore();
    for (int step = 0; step < stages - 1; ++step) {
      if (step < steps) copyPixels<unrolled>(step);
      commitCopies();
    }
    meanwhile();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      waitForCopies<stages - 2>();
      __syncthreads();
      if (step + stages - 1 < steps) {
        copyFilters(step + stages - 1);
        copyPixels<unrolled>(step + stages - 1);
      } else {
        // Not earlier: blocks of the next kernel would crowd on the multiprocessors that have none of this one.
        letNextKernelBegin();
      }
      commitCopies();
      use(shared_ + step % stages * kStageFloats);
    }
    waitForCopies<0>();
  }

 private:
  __device__ void copyFilters(int step) const {
    float* const stage = shared_ + step % stages * kStageFloats;
    const int first = firstChannel_ + step * channels;
    constexpr int filterPieces = filters / 4;
#pragma unroll
    for (int r = 0; r < (channels * filterPieces + threads - 1) / threads; ++r) {
      const int i = threadIdx.x + r * threads;
      if (channels * filterPieces % threads != 0 && i >= channels * filterPieces) break;
      const int channel = first + i / filterPieces;
      const int filter = i % filterPieces * 4;
      const bool exists = channel < endChannel_ && firstFilter_ + filter < x_.weightPitch;
      copyOrZero<16>(stage + i / filterPieces * filterPitch + filter, weight_ + (channel * x_.weightPitch + filter),
                     exists);
    }
  }

  template <int unrolled>
  __device__ void copyPixels(int step) const {
    float* const stage = shared_ + step % stages * kStageFloats + channels * filterPitch;
    const int first = firstChannel_ + step * channels;
    const int ownChannel = threadIdx.x / kPieces;
#pragma unroll
    for (int i = 0; i < kOwnPieces; ++i) {
      const float* from = x_.input + (ownInput_[i] + (first + ownChannel) * x_.inputArea);
      float* const to = stage + ownChannel * pixelPitch + (threadIdx.x % kPieces + i * threads) * kPiece;
#pragma unroll(unrolled)
      for (int channel = 0; channel < channels; channel += kChannelsApart) {
        if (channels % kChannelsApart != 0 && ownChannel + channel >= channels) break;
        copyOrZero<4 * kPiece>(to + channel * pixelPitch, from,
                               ownExists_[i] && first + ownChannel + channel < endChannel_);
        from += kChannelsApart * x_.inputArea;
      }
    }
  }

  static constexpr int kPiece = aligned ? 4 : 1;
  static constexpr int kPieces = pixels / kPiece;
  static constexpr int kOwnPieces = kPieces > threads ? kPieces / threads : 1;
  static constexpr int kChannelsApart = kPieces > threads ? 1 : threads / kPieces;
  static_assert(kPieces == kOwnPieces * threads || kPieces * kChannelsApart == threads);

  const Arguments& x_;
  float* const shared_;
  const float* const weight_;
  const int firstFilter_, firstChannel_, endChannel_;
  int ownInput_[kOwnPieces];
  bool ownExists_[kOwnPieces];
};

}  // namespace warpconv::cuda::pointwise
