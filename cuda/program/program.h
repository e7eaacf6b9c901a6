#pragma once

#include <memory>

#include "cuda/queue.h"
#include "planner/backend.h"
#include "program/program.h"

namespace warpconv::cuda {

/**
 * A network on the device of a queue: constants and packed weights there, scratch memory for one run, since the kernels
 * of a queue run one after another, and two sets of inputs and outputs, so that the copies of one run overlap with the
 * kernels of another; a third run waits. From the second run in a set on, all launches are one graph. A run looks for
 * its cancellation until its kernels are launched, and not later.
 *
 * `backend` answers for the convolutions.
 */
Result<std::shared_ptr<const program::PreparedProgram>> prepareGpuProgram(program::ProgramSpec spec,
                                                                          const Backend& backend,
                                                                          std::shared_ptr<Queue> queue);

}  // namespace warpconv::cuda
