#include "cuda/program/landings.h"

#include <cuda_runtime_api.h>

#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {

Landings::~Landings() {
  // A lost context takes them along.
  if (!contextStatus().isOk()) return;
  for (char* const block : blocks_) {
    if (block != nullptr) (void)cudaFreeHost(block);
  }
}

char* Landings::of(size_t set) {
  const std::lock_guard lock(mutex_);
  char*& block = blocks_[set];
  if (block != nullptr) return block;
  void* made = nullptr;
  // Without, outputs are copied as larger ones are.
  const Status status = toStatus(cudaHostAlloc(&made, kBytes, cudaHostAllocPortable), "allocating page-locked memory");
  if (status.isOk()) block = static_cast<char*>(made);
  return block;
}

}  // namespace warpconv::cuda
