#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "status.h"

namespace warpconv::cuda {

/**
 * A CUDA error as a status; `what` says what was being done. Out of memory leaves the device usable. After an error of
 * a kernel that went astray or of the hardware the context is lost, see contextStatus, and the sentence says so.
 */
Status toStatus(cudaError_t error, const char* what);

/** The same for callbacks of the driver, which may make no CUDA calls. */
Status describeError(cudaError_t error, const char* what);

/** The launch that went before, on this thread. */
inline Status launchStatus(const char* kernel) { return toStatus(cudaGetLastError(), kernel); }

/**
 * Ok, unless an error that a status was made of has lost the context: CUDA then answers every call of this process with
 * that error until it ends. Whoever is about to call CUDA asks first, so that nothing waits for work that will never be
 * done, and whoever would free something leaves that to the driver.
 */
Status contextStatus();

}  // namespace warpconv::cuda
