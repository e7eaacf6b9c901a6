#include <algorithm>
#include <cmath>

#include "cuda/host/device.h"
#include "cuda/kernel/cluster.cuh"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/halves.cuh"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

using Mode = ReduceStep::Mode;

constexpr int kMostThreads = 1024;
/** Loads of a thread under way at once */
constexpr int kAtOnce = 4;

/**
 * How blocks share [outer, length, inner]. A cluster of blocks, each of lanes * workers threads, owns `lanes`
 * neighbouring words of one place in `outer`; of all workers of its blocks, worker w adds up the elements w, w + all, …
 * of each.
 */
struct WordLines {
  int length, inner, pitch, words;
  /** Powers of two */
  int lanes, workers;
  /** Groups of lanes */
  FastDivisor tiles;
  int cluster;
  FastDivisor byCluster;
  int blocks;
};

/** Blocks of a cluster: more than one where few blocks would have long lines each. */
int clusterFor(const GpuTraits& traits, int64_t blocks, int64_t elementsOfWorker) {
  constexpr int kMostBlocks = 8;
  constexpr int64_t kLeastElements = 8;
  int cluster = 1;
  if (traits.computeCapability < 90) return cluster;
  while (cluster < kMostBlocks && 2 * cluster * blocks <= traits.multiprocessors &&
         elementsOfWorker / (2 * cluster) >= kLeastElements) {
    cluster *= 2;
  }
  return cluster;
}

WordLines shareWords(const ReduceStep& step, int64_t pitch, int width, const GpuTraits& traits) {
  const int64_t words = step.inner / width;
  const auto powerOfTwo = [](int64_t least, int64_t most) {
    int power = 1;
    while (power < least && power < most) power *= 2;
    return power;
  };
  constexpr int kWarp = 32;
  const int lanes = powerOfTwo(words, kWarp);
  // Of fewer elements each, most of a thread's time would go into adding up what others have.
  constexpr int kLeastElements = 4;
  const int workers = powerOfTwo(std::max<int64_t>(step.reduced / kLeastElements, 1), kMostThreads / lanes);
  const int64_t tiles = (words + lanes - 1) / lanes;
  const int cluster = clusterFor(traits, step.outer * tiles, step.reduced / workers);
  return {static_cast<int>(step.reduced),
          static_cast<int>(step.inner),
          static_cast<int>(pitch),
          static_cast<int>(words),
          lanes,
          workers,
          FastDivisor(static_cast<int>(tiles)),
          cluster,
          FastDivisor(cluster),
          static_cast<int>(step.outer * tiles * cluster)};
}

template <Mode kMode>
__device__ float joined(float a, float b) {
  if (kMode == Mode::maximum) return b > a || b != b ? b : a;
  if (kMode == Mode::minimum) return b < a || b != b ? b : a;
  return a + b;
}

template <Mode kMode>
__device__ constexpr float none() {
  return kMode == Mode::maximum ? -INFINITY : kMode == Mode::minimum ? INFINITY : 0.0f;
}

/**
 * WordLines says which block has which words. Block b is number b % cluster of its cluster; thread t is lane t % lanes
 * and worker t / lanes. Sums are joined in a fixed order, within blocks and then in the first block of the cluster.
 */
template <Mode kMode, typename Type, int kWidth>
__global__ void __launch_bounds__(kMostThreads)
    reduceHalvesKernel(const __grid_constant__ WordLines x, const uint16_t* input, float* output) {
  beginStep();
  __shared__ float shared[kMostThreads][kWidth + 1];
  int rank = static_cast<int>(blockIdx.x);
  int tile = x.byCluster.divide(rank);
  // tile = tile % tiles, outer = tile / tiles
  const int outer = x.tiles.divide(tile);
  const int thread = static_cast<int>(threadIdx.x);
  const int worker = thread / x.lanes;
  const int word = tile * x.lanes + (thread & (x.lanes - 1));
  float sums[kWidth];
#pragma unroll
  for (int lane = 0; lane < kWidth; ++lane) sums[lane] = none<kMode>();
  if (word < x.words) {
    const uint16_t* line = input + int64_t{outer} * x.length * x.pitch + word * kWidth;
    const int apart = x.cluster * x.workers;
    for (int first = rank * x.workers + worker; first < x.length; first += kAtOnce * apart) {
      Halves<kWidth> loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = min(first + i * apart, x.length - 1);
        loaded[i] = *reinterpret_cast<const Halves<kWidth>*>(line + int64_t{at} * x.pitch);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * apart >= x.length) break;
        float values[kWidth];
        widen<Type>(loaded[i], values);
#pragma unroll
        for (int lane = 0; lane < kWidth; ++lane) sums[lane] = joined<kMode>(sums[lane], values[lane]);
      }
    }
  }
#pragma unroll
  for (int lane = 0; lane < kWidth; ++lane) shared[thread][lane] = sums[lane];
  __syncthreads();
  for (int apart = x.workers / 2; apart > 0; apart /= 2) {
    if (worker < apart) {
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) {
        shared[thread][lane] = joined<kMode>(shared[thread][lane], shared[thread + apart * x.lanes][lane]);
      }
    }
    __syncthreads();
  }
  if (x.cluster > 1) synchroniseCluster(x.cluster);
  if (rank == 0 && worker == 0 && word < x.words) {
    const float factor = kMode == Mode::mean ? 1.0f / static_cast<float>(x.length) : 1.0f;
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) {
      float all = shared[thread][lane];
      for (int other = 1; other < x.cluster; ++other) {
        all = joined<kMode>(all, *sharedOf(&shared[thread][lane], x.cluster, other));
      }
      output[int64_t{outer} * x.inner + word * kWidth + lane] = all * factor;
    }
  }
  // Shared memory stays until it has been read.
  if (x.cluster > 1) awaitClusterReads();
}

template <Mode kMode>
Status launchReduce(const ReduceStep& step, const void* input, float* output, cudaStream_t stream) {
  const int64_t pitch = step.pitch == 0 ? step.inner : step.pitch;
  const int width = widthOfHalves(step.inner, pitch, halvesTo(input));
  const Result<Device*> device = Device::current();
  if (!device.isOk()) return device.status();
  const WordLines lines = shareWords(step, pitch, width, device.value()->traits());
  Launch grid{static_cast<unsigned>(lines.blocks), static_cast<unsigned>(lines.lanes * lines.workers)};
  grid.cluster = static_cast<unsigned>(lines.cluster);
  return withHalf(step.type, [&](auto type) {
    return withWidth(width, [&](auto like) {
      return launch("reduce", reduceHalvesKernel<kMode, decltype(type), decltype(like)::value>, grid, stream, lines,
                    static_cast<const uint16_t*>(input), output);
    });
  });
}

}  // namespace

Status reduceHalves(const ReduceStep& step, const void* input, float* output, cudaStream_t stream) {
  if (step.outer == 0 || step.inner == 0) return {};
  switch (step.mode) {
    case Mode::sum: return launchReduce<Mode::sum>(step, input, output, stream);
    case Mode::mean: return launchReduce<Mode::mean>(step, input, output, stream);
    case Mode::maximum: return launchReduce<Mode::maximum>(step, input, output, stream);
    case Mode::minimum: return launchReduce<Mode::minimum>(step, input, output, stream);
    default: return {StatusCode::internal, "a reduce step of halves has no such mode"};
  }
}

}  // namespace warpconv::cuda::operators
