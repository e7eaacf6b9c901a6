#pragma once

#include "cuda/kernel/in_register.cuh"
#include "cuda/stem/block.cuh"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::stem {

/**
 * A warpgroup's sums: rows of windows by output channels. Warp w of it has kWarpColumns adjacent outputs of row w, and
 * a thread of those number g and g + 8, with g = lane / 4, for channels 8 j + 2 t and the next, with t = lane % 4.
 * Windows are read as they overlap: of each a thread takes pairs t and t + 4 of a step. Tensor cores cut off what they
 * add up: the sums of a few steps are added to others by ordinary additions.
 */
template <StemTile kTile>
class StemSums {
 public:
  static constexpr int kCount = kTile.blockM / 2;

  /** `offsets`: of pairs. `filters`: of shared memory. */
  __device__ StemSums(const Arguments& x, const uint16_t* offsets, uint32_t filters)
      : offsets_(offsets + threadIdx.x % 4), firstFilters_(inRegister((filters & 0x3ffff) >> 4)), steps_(x.steps) {
    const int row = threadIdx.x / 32 * x.shape.strideH, column = threadIdx.x % 32 / 4;
    const int perOutput = x.shape.strideW / x.patchStep;
    first_ = row * x.rowWords + column * perOutput;
    eightOn_ = 8 * perOutput;
  }

  /** Sums up a tile, of whose patch these are the words. */
  __device__ void add(const uint2* words) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums_[i] = cross_[i] = 0.0f;
    words += first_;
    filters_ = firstFilters_;
    Operands operands[2][kTile.together];
    load(operands[0], words, 0);
    // Says whether more follow.
    const auto addSteps = [&](const auto& now, auto& next, int step) {
      begin(now, steps_ - step);
      const bool more = step + kTile.together < steps_;
      if (more) load(next, words, step + kTile.together);
      waitForProducts(high_);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums_[i] += high_[i];
      return more;
    };
    int step = 0;
#pragma unroll 1
    while (addSteps(operands[0], operands[1], step) && addSteps(operands[1], operands[0], step + kTile.together)) {
      step += 2 * kTile.together;
    }
    waitForProducts(cross_);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums_[i] = fmaf(cross_[i], 1 / kLowScale, sums_[i]);
  }

  /** Stages those of half the channels for the threads of this warp, as [channel][output], but for both scales. */
  __device__ void stage(int half, float* staged) const {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float sum = half == 0 ? sums_[i] : sums_[kCount / 2 + i];
      staged[(i / 4 * 8 + 2 * t + i % 2) * kTile.kStagedPitch + i % 4 / 2 * 8 + g] = sum;
    }
  }

 private:
  /** As descriptors have it */
  static constexpr int kStep = kTile.stepBytes() >> 4;
  struct Operands {
    uint32_t high[4], low[4];
  };

  __device__ void load(Operands (&operands)[kTile.together], const uint2* words, int step) const {
#pragma unroll
    for (int together = 0; together < kTile.together; ++together) {
      Operands& own = operands[together];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint2* const at = words + offsets_[(step + together) * kStepPairs + 4 * i];
        const uint2 first = at[0], second = at[eightOn_];
        own.high[2 * i] = first.x, own.low[2 * i] = first.y;
        own.high[2 * i + 1] = second.x, own.low[2 * i + 1] = second.y;
      }
    }
  }

  /** As many steps as `operands` are of, or all that are `left`: the first one before it is known how many. */
  __device__ void begin(const Operands (&operands)[kTile.together], int left) {
    beginProducts();
    beginMultiplyFp16<false>(high_, operands[0].high, filters(0));
    beginCross(operands[0], 0);
    if (left >= kTile.together) {
      beginOthers<kTile.together>(operands);
    } else if (kTile.together == 3 && left == 2) {
      beginOthers<2>(operands);
    } else {
      beginOthers<1>(operands);
    }
    filters_ += kTile.together * kStep;
  }
  template <int kSteps>
  __device__ void beginOthers(const Operands (&operands)[kTile.together]) {
    beginProducts();
#pragma unroll
    for (int i = 1; i < kSteps; ++i) {
      beginMultiplyFp16<true>(high_, operands[i].high, filters(i * kStep));
      beginCross(operands[i], i * kStep);
    }
    commitProducts();
  }
  __device__ void beginCross(const Operands& operands, int ahead) {
    beginMultiplyFp16<true>(cross_, operands.low, filters(ahead));
    beginMultiplyFp16<true>(cross_, operands.high, filters(ahead + kStep / 2));
  }
  __device__ uint64_t filters(int ahead) const { return columnsAt(0, 16 * kTile.blockM) | (filters_ + ahead); }

  const uint16_t* offsets_;
  /** Where filters begin, and where those of the next steps do, as descriptors have it */
  uint32_t firstFilters_, filters_;
  int steps_, first_, eightOn_;
  /** Products of high halves, of some steps; those of which one half is low; and high ones of all steps, or both */
  float high_[kCount], cross_[kCount], sums_[kCount];
};

}  // namespace warpconv::cuda::stem
