#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/cuda_status.h"

namespace warpconv::cuda::operators {

/** Threads of a block, where a thread's work does not depend on its neighbours'. */
inline constexpr int kThreads = 256;

struct Grid {
  dim3 blocks;
  dim3 threads{kThreads};
  size_t sharedBytes = 0;
};

/** One thread for each of `count` pieces of work. */
inline Grid gridFor(int64_t count) { return {dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads))}; }

/** Which piece this thread has, in a grid of gridFor. */
__device__ inline unsigned pieceOfThread() { return blockIdx.x * kThreads + threadIdx.x; }

/** Where there is nothing to do, nothing is launched. */
template <typename... Parameters, typename... Arguments>
Status launch(const char* step, void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
              const Arguments&... arguments) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return {};
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = grid.blocks;
  configuration.blockDim = grid.threads;
  configuration.dynamicSmemBytes = grid.sharedBytes;
  configuration.stream = stream;
  return toStatus(cudaLaunchKernelEx(&configuration, kernel, arguments...), step);
}

}  // namespace warpconv::cuda::operators
