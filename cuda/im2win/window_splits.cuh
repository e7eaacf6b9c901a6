#pragma once

#include "cuda/im2win/places.cuh"
#include "cuda/tensor_core/tensor_core.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::im2win {

/**
 * Brings a tile's window elements, blockK x blockN, to shared memory by way of registers, where they are split: high
 * halves first, then low ones, each as columnsAt wants them. A thread stays with one window, n0 + thread % blockN, and
 * takes kCount steps of the reduction that follow each other, so that a warp's loads go along a row of windows and its
 * steps are uniform.
 */
template <GemmTile kTile>
class WindowSplits {
 public:
  static constexpr int kCount = kTile.blockK * kTile.blockN / kTile.loaders();

  /** `shared`: of the first stage's windows. `steps`: space of this warp for kCount. `thread`: of kTile.loaders(). */
  __device__ WindowSplits(const GemmArguments& x, const BlockPlace& place, int firstStep, uint32_t shared,
                          WindowStep* steps, int thread)
      : steps_(steps) {
    const int column = thread % kTile.blockN;
    const int row = thread / kTile.blockN * kCount;
    shared_ = shared + (row / 4 * kTile.blockN + column) * 16;
    order_ = x.order + firstStep + row + thread % kCount;
    next_ = __ldg(reinterpret_cast<const int2*>(order_));
    const Window window = windowAt(x, place.group, place.n0 + column);
    window_ = settled(window.first);
    outside_ = window.outside;
  }

  /**
   * The elements of this thread's next tile into registers. The steps of its tile after that are read meanwhile, one by
   * each lane.
   */
  __device__ void fetchTile() {
    __syncwarp();
    if (threadIdx.x % 32 < kCount) steps_[threadIdx.x % 32] = {next_.x, static_cast<uint32_t>(next_.y)};
    __syncwarp();
    order_ += kTile.loaderTurns * kTile.blockK;
    next_ = __ldg(reinterpret_cast<const int2*>(order_));
#pragma unroll
    for (int first = 0; first < kCount; first += 8) {
      int4 two[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) two[i] = *reinterpret_cast<const int4*>(steps_ + first + 2 * i);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values_[first + 2 * i] = valueAt(two[i].x, static_cast<uint32_t>(two[i].y));
        values_[first + 2 * i + 1] = valueAt(two[i].z, static_cast<uint32_t>(two[i].w));
      }
    }
  }

  /** What was fetched, into the stage so many bytes from the first. */
  __device__ void storeTile(int stage) const {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      Tf32Pair pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) pairs[j] = splitTf32(values_[i + j]);
      const uint32_t at = shared_ + stage + i * kTile.blockN * 4;
      storeFour(at, pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
      storeFour(at + kTile.blockK * kTile.blockN * 4, pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
    }
  }

 private:
  static_assert(kTile.loaders() % kTile.blockN == 0 && kCount * kTile.loaders() == kTile.blockK * kTile.blockN);
  static_assert(kCount % 8 == 0 && kCount <= 32);

  /** Not by __ldg, which the compiler may move to before waitForKernelsBefore. */
  __device__ float valueAt(int offset, uint32_t bits) const {
    return (bits & outside_) == 0 ? __ldca(window_ + offset) : 0.0f;
  }

  uint32_t shared_;
  WindowStep* steps_;
  const float* window_;
  uint32_t outside_;
  const WindowStep* order_;
  int2 next_;
  float values_[kCount];
};

}  // namespace warpconv::cuda::im2win
