#pragma once

#include <cuda_runtime_api.h>

#include "cuda/host/device.h"
#include "gpu/contest_types.h"

namespace warpconv::cuda {

/** What the device does at best, now: by multiply-adds in registers, and by copies much larger than its caches. Blocks.
 */
Result<Ceilings> measureCeilings(Device& device, cudaStream_t stream);

}  // namespace warpconv::cuda
