#pragma once

#include <cstdint>

#include "cuda/depthwise/arguments.h"
#include "cuda/depthwise/load_word.cuh"
#include "cuda/depthwise/tile.h"
#include "cuda/epilogue/half_activation.cuh"

namespace warpconv::cuda::depthwise {

/**
 * What a thread has: kChannels channels of kColumns adjacent output columns and `run` rows. Threads are numbered lane
 * fastest, then strip, slice, run and image: neighbours have neighbouring channels, a block the strips beside each
 * other, whose columns overlap. Those behind the last channel of a slice, or the last image, have nothing.
 */
template <int kColumns>
struct Strip {
  int n, channel, firstP, firstQ;
  /** Rows and columns that are in the output */
  int rows, columns;
  /** The first output of the strip, counted in pixels */
  int pixel;

  __device__ explicit Strip(const Arguments& x) {
    int lane = blockIdx.x * kThreads + threadIdx.x;
    int strip = x.byLanes.divide(lane);
    int slice = x.byStrips.divide(strip);
    int run = x.bySlices.divide(slice);
    n = x.byRuns.divide(run);
    channel = (slice * x.lanes + lane) * kChannels;
    firstP = run * x.run, firstQ = strip * kColumns;
    rows = min(x.run, x.shape.p - firstP), columns = min(kColumns, x.shape.q - firstQ);
    pixel = (n * x.shape.p + firstP) * x.shape.q + firstQ;
  }

  __device__ bool isEmpty(const Shape& x) const { return n >= x.n || channel >= x.c; }

  /** Of row h and column w of the image, which need not be in it. */
  __device__ const char* input(const Arguments& x, int h, int w) const {
    return static_cast<const char*>(x.input) + at((n * x.shape.h + h) * x.shape.w + w, x.inputPitch);
  }

  __device__ float2 bias(const Arguments& x) const {
    if (x.bias == nullptr) return {};
    return {__ldg(x.bias + channel), __ldg(x.bias + channel + 1)};
  }

  __device__ float2 filter(const Arguments& x, int tap) const {
    return loadWeights(x.filter + int64_t{tap} * x.shape.c + channel);
  }

  /** Finishes the sums of row firstP + p, which hold the bias, and writes them. */
  template <typename Pair>
  __device__ void finish(const Arguments& x, int p, const float2 (&sums)[kColumns]) const {
    const int first = pixel + p * x.shape.q;
    float y[kColumns * kChannels];
#pragma unroll
    for (int o = 0; o < kColumns; ++o) y[o * kChannels] = sums[o].x, y[o * kChannels + 1] = sums[o].y;
    if (x.residual != nullptr) {
      const char* from = static_cast<const char*>(x.residual) + at(first, x.residualPitch);
#pragma unroll
      for (int o = 0; o < kColumns; ++o) {
        const float2 other = Pair::toFloats(loadWordOrZero(from + o * x.residualPitch, o < columns));
        y[o * kChannels] += other.x, y[o * kChannels + 1] += other.y;
      }
    }
    activateHalves(y, x.activation);
    char* to = static_cast<char*>(x.output) + at(first, x.outputPitch);
#pragma unroll
    for (int o = 0; o < kColumns; ++o) {
      const uint32_t word = Pair::fromFloats(y[o * kChannels], y[o * kChannels + 1]);
      if (o < columns) *reinterpret_cast<uint32_t*>(to + o * x.outputPitch) = word;
    }
  }

 private:
  __device__ int64_t at(int anyPixel, unsigned pitch) const {
    return int64_t{anyPixel} * pitch + channel * static_cast<int>(sizeof(uint16_t));
  }
};

}  // namespace warpconv::cuda::depthwise
