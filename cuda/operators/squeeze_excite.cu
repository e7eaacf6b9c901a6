#include <algorithm>
#include <cstdint>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/host/device.h"
#include "cuda/kernel/cluster.cuh"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/halves.cuh"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace squeeze {
namespace {

constexpr int kWarp = 32, kBlock = 512, kWarps = kBlock / kWarp;
/** Loads of a thread under way at once */
constexpr int kAtOnce = 4;

/**
 * A cluster of blocks has an image, each block some of its pixels. `lanes` neighbouring threads have the words of a
 * pixel, and `workers` groups of them every workers-th pixel of the block.
 */
struct Squeeze {
  int area, channels, hidden;
  int inputPitch, outputPitch;
  int words, lanes, workers;
  int cluster;
  FastDivisor byCluster;
  /** Of a block, the last one's excepted */
  int pixels;
  Gates gates;
  BoundedActivation hiddenActivation, gateActivation;
};

/** The words of pixels that this thread has, for each the pixels of the block. */
template <typename Body>
__device__ void forEachWord(const Squeeze& x, const Body& body) {
  const int worker = static_cast<int>(threadIdx.x) / x.lanes;
  if (worker >= x.workers) return;
  for (int word = static_cast<int>(threadIdx.x) % x.lanes; word < x.words; word += x.lanes) body(worker, word);
}

/** Calls body(pixel, floats) for pixels of a block, `workers` apart. */
template <typename Type, int kWidth, typename Body>
__device__ void forEachPixel(const Squeeze& x, const uint16_t* from, int first, int end, const Body& body) {
  const int apart = x.workers;
  for (int pixel = first; pixel < end; pixel += kAtOnce * apart) {
    Halves<kWidth> loaded[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = min(pixel + i * apart, end - 1);
      loaded[i] = *reinterpret_cast<const Halves<kWidth>*>(from + int64_t{at} * x.inputPitch);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (pixel + i * apart >= end) break;
      float values[kWidth];
      widen<Type>(loaded[i], values);
      body(pixel + i * apart, values);
    }
  }
}

/** A row of the matrix times a vector, by a warp. */
__device__ inline float productOfRow(const float* row, const float* vector, int count) {
  float sum = 0.0f;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < count; i += kWarp) sum = fmaf(__ldg(row + i), vector[i], sum);
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}

/**
 * Each block adds up its pixels, and then the sums of all blocks of its cluster, in a fixed order. Each warp of the
 * cluster makes some of the hidden units, and each block some of the gates. The others read them from its shared
 * memory.
 */
template <typename Type, int kWidth>
__global__ void __launch_bounds__(kBlock, 2)
    squeezeExciteKernel(const __grid_constant__ Squeeze x, const uint16_t* input, uint16_t* output) {
  beginStep();
  extern __shared__ float memory[];
  // By worker and channel; then what is made of the first row: sums of the block, and last its share of the gates
  float* const sums = memory;
  // Means, and last gates, of all channels
  float* const ofChannels = sums + x.workers * x.channels;
  float *const ownHidden = ofChannels + x.channels, *const hidden = ownHidden + x.hidden;
  const int thread = static_cast<int>(threadIdx.x);
  int rank = static_cast<int>(blockIdx.x);
  // rank = block % cluster, image = block / cluster
  const int64_t image = x.byCluster.divide(rank);
  const int begin = rank * x.pixels, end = min(begin + x.pixels, x.area);
  const uint16_t* const from = input + image * x.area * x.inputPitch;
  forEachWord(x, [&](int worker, int word) {
    float sum[kWidth] = {};
    forEachPixel<Type, kWidth>(x, from + word * kWidth, begin + worker, end, [&](int, const float(&values)[kWidth]) {
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) sum[lane] += values[lane];
    });
    float* const to = sums + worker * x.channels + word * kWidth;
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) to[lane] = sum[lane];
  });
  __syncthreads();
  for (int c = thread; c < x.channels; c += kBlock) {
    float sum = sums[c];
    for (int worker = 1; worker < x.workers; ++worker) sum += sums[worker * x.channels + c];
    sums[c] = sum;
  }
  synchroniseCluster(x.cluster);
  const float share = 1.0f / static_cast<float>(x.area);
  for (int c = thread; c < x.channels; c += kBlock) {
    float sum = 0.0f;
    for (int block = 0; block < x.cluster; ++block) sum += *sharedOf(sums + c, x.cluster, block);
    ofChannels[c] = sum * share;
  }
  __syncthreads();
  for (int j = rank * kWarps + thread / kWarp; j < x.hidden; j += x.cluster * kWarps) {
    const float sum = productOfRow(x.gates.hiddenWeight + j * x.channels, ofChannels, x.channels);
    const float bias = x.gates.hiddenBias == nullptr ? 0.0f : __ldg(x.gates.hiddenBias + j);
    if (thread % kWarp == 0) ownHidden[j] = activate(sum + bias, x.hiddenActivation);
  }
  synchroniseCluster(x.cluster);
  for (int j = thread; j < x.hidden; j += kBlock) {
    hidden[j] = *sharedOf(ownHidden + j, x.cluster, j / kWarps % x.cluster);
  }
  __syncthreads();
  // Block r has the channels from channels * r / cluster on, so that c is of block ((c + 1) * cluster - 1) / channels.
  const int last = x.channels * (rank + 1) / x.cluster;
  for (int c = x.channels * rank / x.cluster + thread; c < last; c += kBlock) {
    float sum = x.gates.gateBias == nullptr ? 0.0f : __ldg(x.gates.gateBias + c);
#pragma unroll 16
    for (int j = 0; j < x.hidden; ++j) sum = fmaf(__ldg(x.gates.gateWeight + j * x.channels + c), hidden[j], sum);
    sums[c] = activate(sum, x.gateActivation);
  }
  synchroniseCluster(x.cluster);
  for (int c = thread; c < x.channels; c += kBlock) {
    ofChannels[c] = *sharedOf(sums + c, x.cluster, ((c + 1) * x.cluster - 1) / x.channels);
  }
  __syncthreads();
  uint16_t* const to = output + image * x.area * x.outputPitch;
  forEachWord(x, [&](int worker, int word) {
    float gates[kWidth];
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) gates[lane] = ofChannels[word * kWidth + lane];
    const auto store = [&](int pixel, float(&values)[kWidth]) {
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) values[lane] *= gates[lane];
      auto* const place = reinterpret_cast<Halves<kWidth>*>(to + int64_t{pixel} * x.outputPitch + word * kWidth);
      *place = narrow<Type>(values);
    };
    forEachPixel<Type, kWidth>(x, from + word * kWidth, begin + worker, end, store);
  });
  // Shared memory stays until it has been read.
  if (x.cluster > 1) awaitClusterReads();
}

/** More than one block for an image that gives each enough to do. */
int clusterFor(const SqueezeExciteStep& step, int computeCapability) {
  constexpr int kMostBlocks = 8;
  constexpr int64_t kLeastElements = 4096;
  int cluster = 1;
  if (computeCapability < 90) return cluster;
  while (cluster < kMostBlocks && step.area * step.channels >= 2 * cluster * kLeastElements) cluster *= 2;
  return cluster;
}

Squeeze squeezeOf(const SqueezeExciteStep& step, const Gates& gates, int width, int cluster) {
  const int words = static_cast<int>(step.channels) / width;
  const int lanes = std::min(words, kBlock);
  return {static_cast<int>(step.area),
          static_cast<int>(step.channels),
          static_cast<int>(step.hidden),
          static_cast<int>(step.inputPitch),
          static_cast<int>(step.outputPitch),
          words,
          lanes,
          kBlock / lanes,
          cluster,
          FastDivisor(cluster),
          static_cast<int>((step.area + cluster - 1) / cluster),
          gates,
          step.hiddenActivation,
          step.gateActivation};
}

}  // namespace
}  // namespace squeeze

Status squeezeExcite(const SqueezeExciteStep& step, const Gates& gates, const void* input, void* output,
                     cudaStream_t stream) {
  using namespace squeeze;
  const Result<Device*> device = Device::current();
  if (!device.isOk()) return device.status();
  const int width = widthOfHalves(step.channels, step.inputPitch, step.outputPitch, halvesTo(input), halvesTo(output));
  const int cluster = clusterFor(step, device.value()->traits().computeCapability);
  const Squeeze x = squeezeOf(step, gates, width, cluster);
  Launch grid{static_cast<unsigned>(step.n * cluster), kBlock};
  grid.cluster = static_cast<unsigned>(cluster);
  grid.sharedBytes = static_cast<int>(sizeof(float)) * ((x.workers + 1) * x.channels + 2 * x.hidden);
  return withHalf(step.type, [&](auto type) {
    return withWidth(width, [&](auto like) {
      return launch("squeezeExcite", squeezeExciteKernel<decltype(type), decltype(like)::value>, grid, stream, x,
                    static_cast<const uint16_t*>(input), static_cast<uint16_t*>(output));
    });
  });
}

}  // namespace warpconv::cuda::operators
