#include "cuda/host/cuda_status.h"
#include "cuda/host/device.h"
#include "cuda/operators/launch.cuh"

namespace warpconv::cuda::operators {

Result<bool> overlaps(const void* kernel, const Launch& grid) {
  const Result<Device*> device = Device::current();
  if (!device.isOk()) return device.status();
  const GpuTraits& traits = device.value()->traits();
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, kernel, static_cast<int>(grid.threads), static_cast<size_t>(grid.sharedBytes));
  if (error != cudaSuccess) return toStatus(error, "asking how many blocks the GPU holds");
  return shouldOverlap(traits.computeCapability, grid.blocks, int64_t{blocks} * traits.multiprocessors);
}

}  // namespace warpconv::cuda::operators
