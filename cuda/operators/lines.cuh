#pragma once

#include "cuda/operators/launch.cuh"
#include "cuda/operators/lines.h"

namespace warpconv::cuda::operators {

inline Launch gridFor(const Lines& lines) {
  return {static_cast<unsigned>(lines.blocks), static_cast<unsigned>(lines.threads())};
}

/**
 * What all workers of a line have, joined in a fixed order; every one of them gets it. Every thread of the block takes
 * part. `shared` has a value for each and may be used again at once.
 */
template <typename Value, typename Join>
__device__ Value joinWorkers(const Lines& lines, int worker, Value own, Value* shared, const Join& join) {
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = own;
  __syncthreads();
  for (int apart = lines.workers / 2; apart > 0; apart /= 2) {
    if (worker < apart) shared[thread] = join(shared[thread], shared[thread + apart * lines.lanes]);
    __syncthreads();
  }
  const Value all = shared[thread - worker * lines.lanes];
  __syncthreads();
  return all;
}

}  // namespace warpconv::cuda::operators
