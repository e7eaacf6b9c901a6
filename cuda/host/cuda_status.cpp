#include "cuda/host/cuda_status.h"

#include <atomic>

namespace warpconv::cuda {
namespace {

/** The error that lost the context of this process. */
std::atomic<cudaError_t> lostTo{cudaSuccess};

/** Those of which the runtime's manual says that only the end of the process clears them, and faults of the hardware.
 */
bool losesContext(cudaError_t error) {
  switch (error) {
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorMpsClientTerminated:
    case cudaErrorNvlinkUncorrectable:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
      return true;
    default: return false;
  }
}

std::string described(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

constexpr const char* kRemedy = "restart the process, or use device 'cpu'";

}  // namespace

Status toStatus(cudaError_t error, const char* what) {
  // Otherwise the runtime reports it again with the next launch.
  if (error != cudaSuccess) (void)cudaGetLastError();
  return describeError(error, what);
}

Status describeError(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  const std::string name = cudaGetErrorName(error);
  const std::string message = std::string(what) + " failed: " + described(error);
  if (error == cudaErrorMemoryAllocation) {
    return {StatusCode::outOfMemory, message + "; free tensors and plans on the GPU, or use smaller batches", name};
  }
  // The first one is the cause of those that follow.
  cudaError_t none = cudaSuccess;
  if (losesContext(error)) lostTo.compare_exchange_strong(none, error);
  if (contextStatus().isOk()) return {StatusCode::cuda, message, name};
  return {StatusCode::cuda, message + "; the GPU context of this process is lost: " + kRemedy, name};
}

Status contextStatus() {
  const cudaError_t error = lostTo;
  if (error == cudaSuccess) return {};
  return {StatusCode::cuda,
          "the GPU context of this process was lost to an earlier " + described(error) + ": " + kRemedy,
          cudaGetErrorName(error)};
}

}  // namespace warpconv::cuda
