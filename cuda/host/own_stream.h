#pragma once

#include <cuda_runtime_api.h>

#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {

/** Enqueues `work(stream)`, which says how that went, on a stream of its own, and returns when all of it is done. */
template <typename Work>
Status runOnOwnStream(const char* what, Work&& work) {
  cudaStream_t stream = nullptr;
  if (Status status = toStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
      !status.isOk()) {
    return status;
  }
  const cudaError_t error = work(stream);
  const cudaError_t waited = cudaStreamSynchronize(stream);
  (void)cudaStreamDestroy(stream);
  return toStatus(error != cudaSuccess ? error : waited, what);
}

}  // namespace warpconv::cuda
