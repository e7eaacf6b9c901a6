#include <cuda_pipeline.h>

#include "cuda/epilogue/finish_in_turn.cuh"
#include "cuda/shuffle/launches.h"
#include "cuda/shuffle/window.cuh"

namespace warpconv::cuda {
namespace {

/** `count` floats into shared memory by one warp without waiting: 16 bytes at a time where both ends start on them. */
__device__ void fetchMaps(float* to, const float* from, int count, bool wide) {
  const int lane = threadIdx.x;
  const int vectors = wide ? count / 4 : 0;
  for (int i = lane; i < vectors; i += kWarpLanes) __pipeline_memcpy_async(to + 4 * i, from + 4 * i, 16);
  for (int i = vectors * 4 + lane; i < count; i += kWarpLanes) __pipeline_memcpy_async(to + i, from + i, 4);
}

/** The same of filters, from element `first` of `all` on and then from the beginning again, N at a time. */
template <int N>
__device__ void fetchTaps(float* to, const float* taps, int first, int count, int all) {
  for (int i = N * threadIdx.x; i < count; i += N * kWarpLanes) {
    int from = first + i;
    while (from >= all) from -= all;
    __pipeline_memcpy_async(to + i, taps + from, N * sizeof(float));
  }
}

/** `count` floats into the second cache. */
__device__ void prefetchMaps(const float* from, int count) {
  constexpr int kLine = 32;
  for (int i = kLine * threadIdx.x; i < count; i += kLine * kWarpLanes) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i));
  }
}

/** Finishes `count` sums and writes them, from element `index` of the output on. */
__device__ void storeMaps(const ShuffleCall& call, int index, const float* sums, int count) {
  const Epilogue epilogue{nullptr, call.epilogue.residual, call.epilogue.activation};
  const bool finished = isFinished(epilogue);
  float* const to = call.tensors.output + index;
  const int lane = threadIdx.x;
  const int vectors = finished && call.storeWidth == 4 ? count / 4 : 0;
  for (int i = lane; i < vectors; i += kWarpLanes) {
    reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(sums)[i];
  }
  for (int i = vectors * 4 + lane; i < count; i += kWarpLanes) {
    to[i] = finished ? sums[i] : finish(epilogue, sums[i], 0, index + i);
  }
}

/** What a lane has of a map. */
struct Columns {
  /** The map's first row, where the lane's windows begin; that may be outside of the map */
  const float* top;
  /** Bit s: column s of the windows lies inside of the map */
  unsigned inside;
  /** Outputs of a row to write */
  int outputs;
};

/** Writes a lane's output columns from the top down, beginning at `to`. */
template <int F, int T>
__device__ __forceinline__ void walkDown(const Shape& x, const float (&filter)[F * F], float start,
                                         const Columns& columns, float* to) {
  using Window = RowWindow<F, T, kPlaneColumns<T>>;
  Window window;
  window.clear(start);
  const auto endRow = [&] {
#pragma unroll
    for (int o = 0; o < kPlaneColumns<T>; ++o) {
      if (o < columns.outputs) to[o] = window.finished()[o];
    }
    to += x.q;
  };
  // Output rows end in the steps from this one on. Those before `begin` and from `end` on read no row of the map.
  constexpr int kFilling = Window::kRows - 1;
  const int steps = x.p + kFilling;
  const int begin = min(x.padTop / T, steps);
  const int end = min((x.h + x.padTop + T - 1) / T, steps);
  const bool inPlace = outputsReplaceMaps(x);
  for (int step = kFilling; step < begin; ++step) endRow();
  int step = begin;
  int h = begin * T - x.padTop;
  const float* row = columns.top + h * x.w;
  // Two at a time: 37 us become 35.5 on maps of 14 x 14 with 7 x 7 filters.
#pragma unroll 2
  for (; step < end; ++step) {
#pragma unroll
    for (int j = 0; j < T; ++j, ++h, row += x.w) {
      // With a stride of 1 a step has one row, and these have one of the map.
      const unsigned mask = T == 1 || static_cast<unsigned>(h) < static_cast<unsigned>(x.h) ? columns.inside : 0;
      float inputs[Window::kColumns];
#pragma unroll
      for (int s = 0; s < Window::kColumns; ++s) inputs[s] = (mask >> s & 1) != 0 ? row[s] : 0.0f;
      window.add(j, inputs, filter);
    }
    if (step >= kFilling) {
      // Everybody has read this row.
      if (inPlace) __syncwarp();
      endRow();
    }
    window.next(start);
  }
  if (inPlace) __syncwarp();
#pragma unroll 1
  for (; step < steps; ++step) {
    if (step >= kFilling) endRow();
    window.next(start);
  }
}

/**
 * Depthwise. The maps n * C + c lie one after the other in the input as in the output, and a block, which is one warp,
 * takes `planes` of them at a time: those from b * planes on, then those from (b + blocks) * planes on, and so forth. A
 * lane owns a few adjacent output columns of one map and walks down them; lanes are numbered columns fastest, then map.
 * Shared memory: the maps as they are, their filters, and the outputs, which take the place of the maps where they are
 * as large. So everything outside of the block is moved 16 bytes at a time, whatever the extents, and warps wait for
 * nobody but themselves: while the maps of some arrive, others compute. Columns outside of a map are zeros that are not
 * in memory, and steps of rows outside of it add nothing.
 */
template <int F, int T>
__global__ void __launch_bounds__(kWarpLanes, planeBlocksResident(F)) planesKernel(ShuffleCall call) {
  constexpr int C = kPlaneColumns<T>;
  extern __shared__ float4 shared[];
  const Shape& x = call.shape;
  const int most = call.plan.planes;
  const int inputSize = x.h * x.w;
  const int outputSize = x.p * x.q;
  const int allPlanes = x.n * x.c;
  const int allTaps = x.c * F * F;
  // `planes` is a multiple of four, so that each region starts on 16 bytes.
  float* const maps = reinterpret_cast<float*>(shared);
  float* const taps = maps + most * inputSize;
  float* const outputs = outputsReplaceMaps(x) ? maps : taps + most * F * F;

  int q = threadIdx.x;
  const int laneMap = call.byLanes.divide(q);
  q *= C;
  const int w = q * T - x.padLeft;
  unsigned inside = 0;
#pragma unroll
  for (int s = 0; s < RowWindow<F, T, C>::kColumns; ++s) {
    inside |= static_cast<unsigned>(static_cast<unsigned>(w + s) < static_cast<unsigned>(x.w)) << s;
  }
  waitForKernelsBefore();
  letNextKernelBegin();
  const auto fetchFilters = [&](int first, int planes) {
    call.byOutputs.divide(first);
    // Then it is a multiple of four, too.
    if (x.c % 4 == 0) {
      fetchTaps<4>(taps, call.weight, first * F * F, planes * F * F, allTaps);
    } else {
      fetchTaps<1>(taps, call.weight, first * F * F, planes * F * F, allTaps);
    }
  };
  int first = blockIdx.x * most;
  int planes = min(most, allPlanes - first);
  fetchFilters(first, planes);
  while (planes > 0) {
    fetchMaps(maps, call.tensors.input + first * inputSize, planes * inputSize, call.loadWidth == 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();

    // Lanes that have no map do the work of the first, and keep it for themselves.
    const int map = laneMap < planes ? laneMap : 0;
    const int ownColumns = laneMap < planes ? min(C, x.q - q) : 0;
    int channel = first + map;
    call.byOutputs.divide(channel);
    const float start = call.epilogue.bias == nullptr ? 0.0f : call.epilogue.bias[channel];
    float filter[F * F];
#pragma unroll
    for (int i = 0; i < F * F; ++i) filter[i] = taps[map * F * F + i];
    // Everybody has theirs in registers, which makes room for the next. Not fetched beside the maps: 38.4 us
    // become 34.6 on maps of 14 x 14 with 7 x 7 filters, and 21.7 become 19.8 on 7 x 7 with 5 x 5.
    __syncwarp();
    const int nextFirst = first + gridDim.x * most;
    const int nextPlanes = min(most, allPlanes - nextFirst);
    if (nextPlanes > 0) {
      fetchFilters(nextFirst, nextPlanes);
      // On maps of 14 x 14 34.6 us become 33.9; with 5 x 5 filters, which wait for memory as it is, 43 would become 47.
      if (F == 7) prefetchMaps(call.tensors.input + nextFirst * inputSize, nextPlanes * inputSize);
    }
    walkDown<F, T>(x, filter, start, {maps + map * inputSize + w, inside, ownColumns}, outputs + map * outputSize + q);
    __syncwarp();
    storeMaps(call, first * outputSize, outputs, planes * outputSize);
    __syncwarp();
    first = nextFirst;
    planes = nextPlanes;
  }
}

template <int F, int T>
cudaError_t launchPlanes(const ShuffleCall& call, cudaStream_t stream) {
  return launchKernel(planesKernel<F, T>, call.launch(kWarpLanes), stream, call);
}

}  // namespace

cudaError_t launchPlanes(const ShuffleCall& call, cudaStream_t stream) {
  return withSquareFilter(call.shape.s, call.shape.strideW,
                          [&]<int F, int T>() { return launchPlanes<F, T>(call, stream); });
}

}  // namespace warpconv::cuda
