#pragma once

#include <memory>

#include "backend/backend.h"
#include "cuda/program/gpu_store.h"

namespace warpconv::cuda {

/**
 * A network on the device of a store's queue, with weights, constants and scratch memory in the store. The first two
 * runs launch their steps one by one. Then the launches are captured as a graph, on a thread of its own, for the memory
 * that the run had; runs that are given other memory launch one by one again. A run looks for its cancellation until
 * its kernels are launched, and not later.
 *
 * `backend` answers for the convolutions.
 */
Result<std::shared_ptr<const program::PreparedProgram>> prepareGpuProgram(program::ProgramSpec spec,
                                                                          const Backend& backend,
                                                                          std::shared_ptr<GpuStore> store);

}  // namespace warpconv::cuda
