#pragma once

#include <cstdint>

#include "cuda/host/device.h"

namespace warpconv::cuda {

/** Numbers from [-1, 1), the same for the same seed, in all of that memory. */
Status fillRandomly(const DeviceMemory& floats, uint64_t seed, cudaStream_t stream);

}  // namespace warpconv::cuda
