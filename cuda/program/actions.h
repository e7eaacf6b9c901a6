#pragma once

#include <functional>

#include "cuda/operators/operators.h"
#include "program/run_memory.h"

namespace warpconv::cuda {

/** The tensors of a run in device memory, scratch memory for one step, and what its gathers report. */
struct Site {
  program::Memory memory;
  void* workspace;
  operators::WrongIndex* wrongIndices;
};

/** Enqueues one step. */
using Action = std::function<Status(const Site&, cudaStream_t)>;

// Steps that need nothing on the device but their tensors.
Action toAction(const program::ElementwiseStep& step);
Action toAction(const program::PoolStep& step);
Action toAction(const program::ReduceStep& step);
Action toAction(const program::SoftmaxStep& step);
Action toAction(const program::NormalizeStep& step);
Action toAction(const program::LocalResponseStep& step);
Action toAction(const program::CopyStep& step);
Action toAction(const program::FillStep& step);
Action toAction(const program::CastStep& step);

/** Enqueues a gather, whose indices that are out of range count as 0. */
Status enqueueGather(const program::GatherStep& step, const Site& site, cudaStream_t stream);

}  // namespace warpconv::cuda
