#include <cuda_pipeline.h>

#include "cuda/shuffle/launches.h"
#include "cuda/shuffle/outputs.cuh"
#include "cuda/shuffle/window.cuh"

namespace warpconv::cuda {
namespace {

/** Whole maps, one after the other: 16 bytes at a time where both ends start on 16 bytes. */
__device__ void storeMaps(float* to, const float* from, int count, bool wide) {
  const int vectors = wide ? count / 4 : 0;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(from)[i];
  }
  for (int i = vectors * 4 + threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

/** The same into shared memory and without waiting, where the device can (before 8.0 these are ordinary copies). */
__device__ void fetchMaps(float* to, const float* from, int count, bool wide) {
  const int vectors = wide ? count / 4 : 0;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) __pipeline_memcpy_async(to + 4 * i, from + 4 * i, 16);
  for (int i = vectors * 4 + threadIdx.x; i < count; i += blockDim.x) __pipeline_memcpy_async(to + i, from + i, 4);
}

/**
 * Depthwise. The maps n * C + c lie one after the other in the input as in the output, and block b takes `planes` of
 * them at a time: those from b * planes on, then those from (b + blocks) * planes on, and so forth. A thread owns two
 * adjacent output columns of one map and walks down them; threads are numbered column pair fastest, then map. Shared
 * memory: twice maps as they are and their filters, one half in use while the other arrives, and the outputs. So
 * everything outside of the block is moved 16 bytes at a time, whatever the extents. Columns outside of a map are
 * zeros that are not in memory, and rows outside of it are skipped.
 */
template <int F, int T>
__global__ void __launch_bounds__(kMostPlaneThreads) planesKernel(ShuffleCall call) {
  using Window = RowWindow<F, T, kPlaneColumns>;
  extern __shared__ float4 shared[];
  const Shape& x = call.shape;
  const int most = call.plan.planes;
  const int inputSize = x.h * x.w;
  const int outputSize = x.p * x.q;
  const int allPlanes = x.n * x.c;
  // `planes` is a multiple of four, so that each region starts on 16 bytes.
  float* const outputs = reinterpret_cast<float*>(shared);
  float* const halves = outputs + most * outputSize;
  constexpr int kPitch = kPlaneFilterPitch<F>;
  const int halfSize = most * (inputSize + kPitch);

  const auto fetch = [&](int firstPlane, float* maps) {
    const int planes = min(most, allPlanes - firstPlane);
    fetchMaps(maps, call.tensors.input + firstPlane * inputSize, planes * inputSize, call.loadWidth == 4);
    const int firstTap = firstPlane % x.c * F * F;
    for (int i = threadIdx.x; i < planes * F * F; i += blockDim.x) {
      int from = firstTap + i;
      if (from >= x.c * F * F) from %= x.c * F * F;
      const int to = i / (F * F) * kPitch + i % (F * F);
      __pipeline_memcpy_async(maps + most * inputSize + to, call.weight + from, 4);
    }
    __pipeline_commit();
  };

  const int pairs = (x.q + kPlaneColumns - 1) / kPlaneColumns;
  const int plane = threadIdx.x / pairs;
  const int q = threadIdx.x % pairs * kPlaneColumns;
  const int w = q * T - x.padLeft;
  const Epilogue epilogue{nullptr, call.epilogue.residual, call.epilogue.activation};
  const bool finished = isFinished(epilogue);

  const int stride = gridDim.x * most;
  float* maps = halves;
  waitForKernelsBefore();
  fetch(blockIdx.x * most, maps);
  letNextKernelBegin();
  for (int firstPlane = blockIdx.x * most; firstPlane < allPlanes; firstPlane += stride) {
    const int planes = min(most, allPlanes - firstPlane);
    __pipeline_wait_prior(0);
    // Everybody's part has arrived, and everybody has stored the outputs before.
    __syncthreads();
    float* const other = maps == halves ? halves + halfSize : halves;
    if (firstPlane + stride < allPlanes) fetch(firstPlane + stride, other);
    if (plane < planes) {
      const int k = (firstPlane + plane) % x.c;
      const float start = call.epilogue.bias == nullptr ? 0.0f : call.epilogue.bias[k];
      float filter[F * F];
      const float* const taps = maps + most * inputSize + plane * kPitch;
#pragma unroll
      for (int i = 0; i < F * F; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(taps + i);
        filter[i] = four.x;
        if (i + 1 < F * F) filter[i + 1] = four.y;
        if (i + 2 < F * F) filter[i + 2] = four.z;
        if (i + 3 < F * F) filter[i + 3] = four.w;
      }
      const float* row = maps + plane * inputSize - x.padTop * x.w + w;
      int index = plane * outputSize + q;
      int h = -x.padTop;
      Window window;
      window.clear(start);
#pragma unroll 1
      for (int p = 1 - Window::kRows; p < x.p; ++p) {
#pragma unroll
        for (int j = 0; j < T; ++j, ++h, row += x.w) {
          // The whole block is on row h; in the padding there is nothing to add.
          if (static_cast<unsigned>(h) >= static_cast<unsigned>(x.h)) continue;
          float columns[Window::kColumns];
#pragma unroll
          for (int s = 0; s < Window::kColumns; ++s) {
            columns[s] = static_cast<unsigned>(w + s) < static_cast<unsigned>(x.w) ? row[s] : 0.0f;
          }
          window.add(j, columns, filter);
        }
        if (p >= 0) {
#pragma unroll
          for (int o = 0; o < kPlaneColumns; ++o) {
            if (q + o >= x.q) continue;
            const float sum = window.finished()[o];
            outputs[index + o] = finished ? sum : finish(epilogue, sum, k, firstPlane * outputSize + index + o);
          }
          index += x.q;
        }
        window.next(start);
      }
    }
    __syncthreads();
    storeMaps(call.tensors.output + firstPlane * outputSize, outputs, planes * outputSize, call.storeWidth == 4);
    maps = other;
  }
}

template <int F, int T>
cudaError_t launch(const ShuffleCall& call, cudaStream_t stream) {
  const int columns = (call.shape.q + kPlaneColumns - 1) / kPlaneColumns * call.plan.planes;
  const int threads = (columns + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
  return launchKernel(planesKernel<F, T>, call.launch(threads), stream, call);
}

}  // namespace

cudaError_t launchPlanes(const ShuffleCall& call, cudaStream_t stream) {
  return withSquareFilter(call.shape, [&]<int F, int T>() { return launch<F, T>(call, stream); });
}

}  // namespace warpconv::cuda
