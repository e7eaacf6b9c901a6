#include "cuda/cuda_status.h"

namespace warpconv::cuda {
namespace {

/** After these every later call on the device fails, and only the end of the process clears them. */
bool isSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorAssert: return true;
    default: return false;
  }
}

}  // namespace

Status toStatus(cudaError_t error, const char* what) {
  // Otherwise the runtime reports it again with the next launch.
  if (error != cudaSuccess) (void)cudaGetLastError();
  return describeError(error, what);
}

Status describeError(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  const std::string name = cudaGetErrorName(error);
  std::string message = std::string(what) + " failed: " + name + " (" + cudaGetErrorString(error) + ")";
  if (error == cudaErrorMemoryAllocation) {
    return {StatusCode::outOfMemory, message + "; free tensors and plans on the GPU, or use smaller batches", name};
  }
  if (isSticky(error)) message += "; CUDA cannot be used in this process any more: restart it";
  return {StatusCode::cuda, message, name};
}

}  // namespace warpconv::cuda
