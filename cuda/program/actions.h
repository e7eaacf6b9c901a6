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
Action toAction(const program::SqueezeExciteStep& step);
Action toAction(const program::CopyStep& step);
Action toAction(const program::FormatStep& step);
Action toAction(const program::FillStep& step);
Action toAction(const program::MapStep& step);
Action toAction(const program::SortStep& step);
Action toAction(const program::ScanStep& step);
Action toAction(const program::TypedReduceStep& step);
Action toAction(const program::TypedMatmulStep& step);

/** Enqueue what nothing out of range is read or written for, whatever the indices are. */
Status enqueueIndexed(const program::GatherStep& step, const Site& site, cudaStream_t stream);
Status enqueueIndexed(const program::IndexedStep& step, const Site& site, cudaStream_t stream);
Status enqueueIndexed(const program::RoiAlignStep& step, const Site& site, cudaStream_t stream);

}  // namespace warpconv::cuda
