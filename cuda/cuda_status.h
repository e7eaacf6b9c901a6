#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "status.h"

namespace warpconv::cuda {

/**
 * A CUDA error as a status; `what` says what was being done. Out of memory leaves the device usable; errors of a kernel
 * that went astray do not, and the sentence says so.
 */
Status toStatus(cudaError_t error, const char* what);

/** The same for callbacks of the driver, which may make no CUDA calls. */
Status describeError(cudaError_t error, const char* what);

/** The launch that went before, on this thread. */
inline Status launchStatus(const char* kernel) { return toStatus(cudaGetLastError(), kernel); }

}  // namespace warpconv::cuda
