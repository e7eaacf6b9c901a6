#pragma once

#include "cuda/kernel/adjacent.cuh"
#include "cuda/pointwise/early_addresses.cuh"
#include "cuda/pointwise/pixel_offsets.cuh"
#include "cuda/pointwise/rows/fp16_tile.h"
#include "cuda/pointwise/rows/row_outputs.cuh"
#include "cuda/pointwise/split_tile.cuh"
#include "cuda/tensor_core/fp16_split.cuh"

namespace warpconv::cuda::pointwise {

/** A chunk of pixels as products take them: of each step the pairs of beginMultiplyFp16, and the scales' inverses. */
template <RowsTile kTile>
struct RowOperand {
  uint32_t high[kTile.chunkSteps][4], low[kTile.chunkSteps][4];
  float inverses[2];
};

/**
 * A thread's share of a block's pixels, straight from global memory to the registers that products take them from: of
 * its two pixels, and of each step of 16 channels, 2 t, the next, and those eight channels later, t = lane % 4.
 */
template <RowsTile kTile, bool aligned>
class RowPixels {
 public:
  static constexpr int kSteps = kTile.chunkSteps, kOfStep = 4;
  struct Chunk {
    float x[kSteps][kOfStep][2];
  };
  /** Of a chunk's first pixels */
  struct Addresses {
    const float* at[kSteps][kOfStep];
  };

  /** Pixels beyond the block's are its last, whose sums are nobody's. */
  __device__ RowPixels(const Arguments& x, const SplitTile& own, int endPixel) : inputArea_(x.inputArea) {
    const int firstChannel = own.firstChannel + threadIdx.x % 4 * 2;
    last_ = x.groupInputs - 1 - firstChannel;
    steps_ = own.steps(RowsTile::kStepChannels);
    const auto offsetOf = [&](int i) {
      return inputOffset(x, min(own.firstPixel + rowPixel<aligned>(i), endPixel - kAtOnce), own.group);
    };
    const int first = offsetOf(0);
    second_ = offsetOf(aligned ? 0 : 1) - first;
    first_ = asBytes(x.input + (first + firstChannel * inputArea_));
  }

  /** Channels beyond the last are the last: filters are zeros there. */
  __device__ Addresses addressesOf(int chunk) const {
    Addresses addresses;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kOfStep; ++i) {
        const int channel = (chunk * kSteps + step) * RowsTile::kStepChannels + i / 2 * 8 + i % 2;
        const int64_t bytes = int64_t{4 * min(channel, last_)} * inputArea_;
        addresses.at[step][i] = reinterpret_cast<const float*>(first_ + bytes);
      }
    }
    return addresses;
  }

  /** While the kernel before runs. */
  static __device__ void keep(const Addresses& first, const Addresses& second) {
    uint64_t all = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kOfStep; ++i) {
        all ^= reinterpret_cast<uint64_t>(first.at[step][i]) ^ (reinterpret_cast<uint64_t>(second.at[step][i]) << 1);
      }
    }
    keepEarly(all);
  }

  /** Chunk after chunk. Zeros beyond the block's channels, whose filters here may be another's. */
  __device__ void load(Chunk& chunk, const Addresses& from) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kOfStep; ++i) {
        float(&two)[2] = chunk.x[step][i];
        loadOrZero<kAtOnce>(two, from.at[step][i], step < steps_);
        if constexpr (!aligned) loadOrZero<1>(two + 1, from.at[step][i] + second_, step < steps_);
      }
    }
    steps_ -= kSteps;
  }

  /** Each pixel by a scale of its own, which the four lanes that share it agree on. */
  static __device__ RowOperand<kTile> split(const Chunk& chunk) {
    RowOperand<kTile> operand;
#pragma unroll
    for (int pixel = 0; pixel < 2; ++pixel) {
      float values[kSteps * kOfStep];
#pragma unroll
      for (int i = 0; i < kSteps * kOfStep; ++i) values[i] = chunk.x[i / kOfStep][i % kOfStep][pixel];
      float most = 0.0f;
#pragma unroll
      for (const float value : values) most = fmaxf(most, fabsf(value));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float scale = scaleFor(most);
      operand.inverses[pixel] = inverseOf(scale);
#pragma unroll
      for (int i = 0; i < kSteps * kOfStep; i += 2) {
        const Fp16Pairs pairs = splitFp16(values[i], values[i + 1], scale);
        operand.high[i / kOfStep][i % kOfStep + pixel] = pairs.high;
        operand.low[i / kOfStep][i % kOfStep + pixel] = pairs.low;
      }
      if (lacksBits(values, scale)) operand.high[0][pixel] = kTwoNaNs;
    }
    return operand;
  }

 private:
  static constexpr int kAtOnce = aligned ? 2 : 1;

  const int inputArea_;
  /** Channels from the thread's first to the group's last, and steps of the block that are not yet loaded */
  int last_, steps_;
  const char* first_;
  /** From a channel's first pixel to its second, where they are read one by one */
  int second_;
};

}  // namespace warpconv::cuda::pointwise
