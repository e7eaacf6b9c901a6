#include "cuda/host/cuda_status.h"
#include "cuda/host/stream_gate.h"

namespace warpconv::cuda {
namespace {

constexpr uint64_t kLongestNanoseconds = 1'000'000;

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/** One thread. */
__global__ void gateKernel(const volatile uint32_t* opened, uint32_t turn) {
  const uint64_t end = nanoseconds() + kLongestNanoseconds;
  // Turns follow each other, so that the difference says which is later when they have wrapped, too.
  while (static_cast<int32_t>(*opened - turn) < 0 && nanoseconds() < end) {
  }
}

}  // namespace

StreamGate::~StreamGate() {
  // Fails only when the context is lost, and the memory with it.
  if (opened_ != nullptr) (void)cudaFreeHost(opened_);
}

Status StreamGate::prepare() {
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, sizeof(*opened_), cudaHostAllocMapped);
  opened_ = static_cast<uint32_t*>(memory);
  if (error == cudaSuccess) *opened_ = turn_;
  return toStatus(error, "locking memory");
}

Status StreamGate::close(cudaStream_t stream) {
  gateKernel<<<1, 1, 0, stream>>>(opened_, ++turn_);
  return launchStatus("holding a stream");
}

void StreamGate::open() { *const_cast<volatile uint32_t*>(opened_) = turn_; }

}  // namespace warpconv::cuda
