#pragma once

#include "cuda/epilogue/finite_check.cuh"
#include "cuda/stem/sums.cuh"
#include "cuda/tensor_core/fp16_split.cuh"

namespace warpconv::cuda::stem {

/**
 * The sum of output channel `k` of the group at (n, p, q) by multiply-adds, channel by channel and without padding: for
 * sums of which an element or a product is not finite, or an element lacks bits.
 */
template <StemTile kTile>
__device__ __noinline__ float sumAgain(const Arguments& x, const Place& place, int k, int n, int p, int q) {
  const Shape& s = x.shape;
  const int block = place.group * x.outputBlocks + place.block, row = k - place.m0;
  const uint32_t* const filter = x.filter + int64_t{block} * x.steps * (kTile.stepBytes() / 4);
  const float inverse = x.filterInverses[block * kTile.blockM + row];
  const float* const input = x.input + (n * s.c + place.group * s.groupInputs) * s.h * s.w;
  float sum = 0.0f;
#pragma unroll 1
  for (int c = 0; c < s.groupInputs; ++c) {
#pragma unroll 1
    for (int r = 0; r < s.r; ++r) {
      const int h = p * s.strideH + r * s.dilationH - s.padTop;
      if (h < 0 || h >= s.h) continue;
#pragma unroll 1
      for (int column = 0; column < s.s; ++column) {
        const int w = q * s.strideW + column * s.dilationW - s.padLeft;
        if (w < 0 || w >= s.w) continue;
        const int pair = (c * s.r + r) * x.pairs + column / 2;
        const uint32_t* const words = filter + pair / kStepPairs * (kTile.stepBytes() / 4) +
                                      (pair % kStepPairs / 4 * kTile.blockM + row) * 4 + pair % 4;
        const float weight = joinFp16({words[0], words[kStepPairs * kTile.blockM]}, column % 2, inverse);
        sum = fmaf(weight, input[(c * s.h + h) * s.w + w], sum);
      }
    }
  }
  return sum;
}

/** Finishes and writes a warp's outputs of a tile: a row's, of the block's channels. */
template <StemTile kTile>
class Outputs {
 public:
  /** `staged`: space of all warps. `inverses` and `biases`: of the block's output channels. */
  __device__ Outputs(const Arguments& x, const Place& place, float* staged, const float* inverses, const float* biases)
      : x_(x),
        place_(place),
        staged_(staged + threadIdx.x / 32 * kTile.stagedFloats()),
        inverses_(inverses),
        biases_(biases),
        channels_(min(kTile.blockM, x.shape.groupOutputs - place.m0)) {}

  /** `inverse`: of the elements' scale. */
  __device__ void write(const StemSums<kTile>& sums, TileOrigin tile, float inverse) const {
    tile.p += static_cast<int>(threadIdx.x) / 32;
    if (tile.p >= x_.shape.p) return;
    const auto writeAll = [&]<int kWidth>() {
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        // Until the others have read what this thread writes over
        __syncwarp();
        sums.stage(half, staged_);
        __syncwarp();
        writeStaged<kWidth>(tile, inverse, half * kTile.stagedChannels());
      }
    };
    if (x_.quadOutputs) return writeAll.template operator()<4>();
    writeAll.template operator()<1>();
  }

 private:
  /** Of staged channels; so many adjacent outputs together, of which Q and the tile have whole numbers. */
  template <int kWidth>
  struct Lane {
    static constexpr int kLanes = kWarpColumns / kWidth, kChannels = 32 / kLanes;
    int first = threadIdx.x % 32 / kLanes, column = threadIdx.x % kLanes * kWidth;
  };

  /** Of channels from `first` on. */
  template <int kWidth>
  __device__ void writeStaged(const TileOrigin& tile, float inverse, int first) const {
    const Shape& s = x_.shape;
    const int column = Lane<kWidth>().column, firstK = place_.group * s.groupOutputs + place_.m0 + first;
    if (tile.q + column >= s.q) return;
    const int origin = ((tile.n * s.k + firstK) * s.p + tile.p) * s.q + tile.q + column, map = s.p * s.q;
    bool finite;
    if (isBounded(x_.epilogue)) {
      finite = forEachChannel<kWidth, 4>(inverse, first, [&](AdjacentSums<kWidth>& sums, int channel) {
        finishBounded(x_.epilogue, sums, biases_[first + channel]);
        sums.store(x_.output + origin + channel * map);
      });
    } else {
      finite = forEachChannel<kWidth, 1>(inverse, first, [&](AdjacentSums<kWidth>& sums, int channel) {
        finish(x_.epilogue, sums, firstK + channel, origin + channel * map);
        sums.store(x_.output + origin + channel * map);
      });
    }
    if (finite) return;
    forEachChannel<kWidth, 1>(inverse, first, [&](AdjacentSums<kWidth>& sums, int channel) {
#pragma unroll 1
      for (int i = 0; i < kWidth; ++i) {
        const float* const staged = staged_ + channel * kTile.kStagedPitch + column;
        if (isfinite(staged[i] * (inverse * inverses_[first + channel]))) continue;
        const float sum = sumAgain<kTile>(x_, place_, place_.m0 + first + channel, tile.n, tile.p, tile.q + column + i);
        const int index = origin + channel * map + i;
        x_.output[index] = finish(x_.epilogue, sum, firstK + channel, index);
      }
    });
  }

  /** Calls take(sums, channel) for each of this thread's. Says whether all sums are finite. */
  template <int kWidth, int kTogether>
  __device__ bool forEachChannel(float inverse, int first, auto&& take) const {
    const Lane<kWidth> lane;
    const int end = min(kTile.stagedChannels(), channels_ - first);
    FiniteCheck finite;
#pragma unroll kTogether
    for (int channel = lane.first; channel < end; channel += lane.kChannels) {
      auto sums = AdjacentSums<kWidth>::load(staged_ + channel * kTile.kStagedPitch + lane.column);
      const float scale = inverse * inverses_[first + channel];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums.x[i] *= scale, finite.add(sums.x[i]);
      take(sums, channel);
    }
    return finite.holds();
  }

  const Arguments& x_;
  const Place& place_;
  float* staged_;
  const float* inverses_;
  const float* biases_;
  int channels_;
};

}  // namespace warpconv::cuda::stem
