#pragma once

#include <cuda_runtime_api.h>

namespace warpconv::test {

/** Enqueues a kernel that writes to an address that nothing has: the context of the process is lost to it. */
void enqueueFault(cudaStream_t stream);

}  // namespace warpconv::test
