#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "cuda/host/device.h"
#include "cuda/host/timed_calls.h"
#include "gpu/contest_types.h"
#include "status.h"

namespace warpconv::cuda {

/** Not empty. */
Spread spreadOf(std::vector<double> samples);

/**
 * Times every contestant on `stream` in turns, the first one changing from round to round. Each has its own result: one
 * that fails leaves the others alone. All have run before, so that nothing is loaded or allocated any more, and whoever
 * calls holds the stream. Blocks.
 */
std::vector<Result<Timing>> timeInTurns(const std::vector<Enqueue>& contestants, const Pace& pace, Device& device,
                                        cudaStream_t stream);

/** As Ceilings::eventMilliseconds. */
Result<double> eventMilliseconds(Device& device, cudaStream_t stream);

}  // namespace warpconv::cuda
