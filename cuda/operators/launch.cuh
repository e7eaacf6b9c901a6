#pragma once

#include <cstdint>

#include "cuda/host/cuda_status.h"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda::operators {

/** Threads of a block, where a thread's work does not depend on its neighbours'. */
inline constexpr int kThreads = 256;

/** One thread for each of `count` pieces of work. */
inline Launch gridFor(int64_t count) { return {static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads}; }

/** Which piece this thread has, in a grid of gridFor. */
__device__ inline unsigned pieceOfThread() { return blockIdx.x * kThreads + threadIdx.x; }

/** The first statement of kernels whose output is no operand; see shouldOverlap. */
__device__ inline void beginStep() {
  waitForKernelsBefore();
  letNextKernelBegin();
}

/** Whether a grid of that kernel should begin before the kernels before it are done. */
Result<bool> overlaps(const void* kernel, const Launch& grid);

/** Where there is nothing to do, nothing is launched. The kernel waits for those before it. */
template <typename... Parameters, typename... Arguments>
Status launch(const char* step, void (*kernel)(Parameters...), Launch grid, cudaStream_t stream,
              const Arguments&... arguments) {
  if (grid.blocks == 0) return {};
  const Result<bool> early = overlaps(reinterpret_cast<const void*>(kernel), grid);
  if (!early.isOk()) return early.status();
  grid.overlaps = early.value();
  return toStatus(launchKernel(kernel, grid, stream, arguments...), step);
}

}  // namespace warpconv::cuda::operators
