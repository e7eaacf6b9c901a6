#include <cuda_runtime.h>

#include "cuda/host/code_capability.h"
#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {
namespace {

/** Compiled for what all kernels are. */
__global__ void sampleKernel() {}

}  // namespace

Result<int> codeCapability() {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, sampleKernel);
  if (error != cudaSuccess) return toStatus(error, "looking for kernels for this device");
  return attributes.ptxVersion;
}

}  // namespace warpconv::cuda
