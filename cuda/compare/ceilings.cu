#include <algorithm>

#include "cuda/compare/blocks.h"
#include "cuda/compare/ceilings.h"
#include "cuda/compare/timing.h"
#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {
namespace {

/** Independent multiply-adds of a thread, and how often each is done: two milliseconds on an H200 */
constexpr int kChains = 16;
constexpr int kSteps = 8192;
/** Of a multiprocessor: twice what it holds at a time */
constexpr int kBlocksEach = 16;

__global__ void __launch_bounds__(kThreads) multiplyAddKernel(float factor, float addend, float* never) {
  float values[kChains];
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) values[chain] = static_cast<float>(threadIdx.x + chain);
#pragma unroll 8
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) values[chain] = fmaf(values[chain], factor, addend);
  }
  float sum = 0;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += values[chain];
  // They tend to addend / (1 - factor), which the compiler does not know.
  if (sum == -1.0f) *never = sum;
}

/** Loads of a thread in flight */
constexpr int kQuads = 4;

__global__ void __launch_bounds__(kThreads) copyKernel(const float4* from, float4* to) {
  const int64_t first = blockIdx.x * int64_t{kThreads * kQuads} + threadIdx.x;
  float4 quads[kQuads];
#pragma unroll
  for (int i = 0; i < kQuads; ++i) quads[i] = __ldcs(from + first + i * kThreads);
#pragma unroll
  for (int i = 0; i < kQuads; ++i) __stcs(to + first + i * kThreads, quads[i]);
}

/** Half of what is copied, which is a multiple of a block's share. */
constexpr int64_t kCopyBytes = int64_t{1} << 30;

}  // namespace

Result<Ceilings> measureCeilings(Device& device, cudaStream_t stream) {
  Result<DeviceMemory> from = device.allocate(kCopyBytes);
  if (!from.isOk()) return from.status();
  Result<DeviceMemory> to = device.allocate(kCopyBytes);
  if (!to.isOk()) return to.status();
  const unsigned blocks = static_cast<unsigned>(kBlocksEach * device.traits().multiprocessors);
  const std::vector<Enqueue> kernels{
      [&] {
        multiplyAddKernel<<<blocks, kThreads, 0, stream>>>(0.999f, 0.5f, to.value().floats());
        return launchStatus("multiply-adds");
      },
      [&] {
        constexpr auto kCopyBlocks = static_cast<unsigned>(kCopyBytes / (kThreads * kQuads * int64_t{sizeof(float4)}));
        copyKernel<<<kCopyBlocks, kThreads, 0, stream>>>(static_cast<const float4*>(from.value().data()),
                                                         static_cast<float4*>(to.value().data()));
        return launchStatus("a copy");
      },
      [&] {
        return toStatus(cudaMemcpyAsync(to.value().data(), from.value().data(), static_cast<size_t>(kCopyBytes),
                                        cudaMemcpyDeviceToDevice, stream),
                        "copying");
      }};
  const std::vector<Result<Timing>> timings = timeInTurns(kernels, {}, device, stream);
  for (const Result<Timing>& timing : timings) {
    if (!timing.isOk()) return timing.status();
  }
  const Result<double> events = eventMilliseconds(device, stream);
  if (!events.isOk()) return events.status();
  const auto seconds = [&](size_t kernel) { return timings[kernel].value().warm.median * 1e-3; };
  const double flops = 2.0 * kChains * kSteps * kThreads * blocks;
  return Ceilings{flops / seconds(0), 2.0 * static_cast<double>(kCopyBytes) / std::min(seconds(1), seconds(2)),
                  events.value()};
}

}  // namespace warpconv::cuda
