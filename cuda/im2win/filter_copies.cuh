#pragma once

#include "cuda/im2win/places.cuh"
#include "cuda/kernel/async_copy.cuh"

namespace warpconv::cuda::im2win {

/** Hides where a pointer comes from: the compiler would add the parts of its offset anew with every use. */
__device__ inline const float* settled(const float* pointer) {
  asm("" : "+l"(pointer));
  return pointer;
}

/** Copies the filter elements, blockK x blockM, of every kTurns-th tile, four output channels at a time. */
template <GemmTile kTile, int kThreads = kTile.threads(), int kTurns = 1>
class FilterCopies {
 public:
  /** `shared`: of the first stage's filters. `thread`: of kThreads. */
  __device__ FilterCopies(const GemmArguments& x, const BlockPlace& place, int firstStep, uint32_t shared, int thread)
      : thread_(thread),
        shared_(shared + (thread / kQuadsInRow * kTile.pitchM() + thread % kQuadsInRow * 4) * 4),
        tilePitch_(kTurns * kTile.blockK * x.filterPitch) {
    const float* const filter = x.filter + place.group * x.filterGroupStride + firstStep * x.filterPitch + place.m0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int quad = thread + i * kThreads;
      const int m = quad % kQuadsInRow * 4;
      filter_[i] = settled(filter + quad / kQuadsInRow * x.filterPitch + m);
      valid_[i] = m < x.filterPitch - place.m0;
    }
  }

  __device__ void copyTile(int stage) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (kQuads % kThreads != 0 && thread_ + i * kThreads >= kQuads) break;
      copyOrZero<16>(shared_ + stage + i * kApart * 4, filter_[i], valid_[i]);
      filter_[i] += tilePitch_;
    }
  }

 private:
  static constexpr int kQuadsInRow = kTile.blockM / 4;
  static constexpr int kQuads = kTile.blockK * kQuadsInRow;
  static constexpr int kCount = (kQuads + kThreads - 1) / kThreads;
  /** Floats of shared memory between a thread's quads: whole rows, unless rows follow each other without a gap. */
  static constexpr int kApart = kTile.pitchM() == kTile.blockM ? kThreads * 4 : kThreads / kQuadsInRow * kTile.pitchM();
  static_assert(kTile.pitchM() == kTile.blockM || kThreads % kQuadsInRow == 0);

  int thread_;
  uint32_t shared_;
  int tilePitch_;
  const float* filter_[kCount];
  bool valid_[kCount];
};

}  // namespace warpconv::cuda::im2win
