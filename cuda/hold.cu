#include "cuda/cuda_status.h"
#include "cuda/hold.h"

namespace warpconv::cuda {
namespace {

constexpr uint64_t kLongestNanoseconds = 1'000'000;

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/** One thread. */
__global__ void holdKernel(const volatile uint32_t* released, uint32_t turn) {
  const uint64_t end = nanoseconds() + kLongestNanoseconds;
  // Turns follow each other, so that the difference says which is later when they have wrapped, too.
  while (static_cast<int32_t>(*released - turn) < 0 && nanoseconds() < end) {
  }
}

}  // namespace

Hold::~Hold() {
  // Fails only when the context is lost, and the memory with it.
  if (released_ != nullptr) (void)cudaFreeHost(released_);
}

Status Hold::open() {
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, sizeof(*released_), cudaHostAllocMapped);
  released_ = static_cast<uint32_t*>(memory);
  if (error == cudaSuccess) *released_ = turn_;
  return toStatus(error, "locking memory");
}

Status Hold::begin(cudaStream_t stream) {
  holdKernel<<<1, 1, 0, stream>>>(released_, ++turn_);
  return launchStatus("holding a stream");
}

void Hold::release() { *const_cast<volatile uint32_t*>(released_) = turn_; }

}  // namespace warpconv::cuda
