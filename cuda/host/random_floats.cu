#include "cuda/host/cuda_status.h"
#include "cuda/host/random_floats.h"
#include "divide.h"

namespace warpconv::cuda {
namespace {

constexpr int kThreads = 256;

/** One thread an element: 24 bits of SplitMix64's hash of its index. */
__global__ void __launch_bounds__(kThreads) fillKernel(int64_t count, uint64_t seed, float* values) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  uint64_t x = seed + (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  values[i] = static_cast<float>(x >> 40) * 0x1p-23f - 1.0f;
}

}  // namespace

Status fillRandomly(const DeviceMemory& floats, uint64_t seed, cudaStream_t stream) {
  const int64_t count = floats.bytes() / static_cast<int64_t>(sizeof(float));
  const auto blocks = static_cast<unsigned>(ceilDivide(count, kThreads));
  fillKernel<<<blocks, kThreads, 0, stream>>>(count, seed, floats.floats());
  return launchStatus("random numbers");
}

}  // namespace warpconv::cuda
