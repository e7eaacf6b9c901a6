#pragma once

#include "cuda/algorithm.h"
#include "cuda/host/queue.h"
#include "gpu/contest_types.h"

namespace warpconv::cuda {

/** As Gpu::holdContest. Nothing else is computed on the queue meanwhile, so that nobody else's kernels are timed. */
Result<ContestReport> holdContest(Queue& queue, const PlanProblem& asked, const Contest& contest);

}  // namespace warpconv::cuda
