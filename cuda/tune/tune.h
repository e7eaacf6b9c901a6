#pragma once

#include <vector>

#include "backend/backend.h"
#include "cuda/algorithm.h"
#include "cuda/host/queue.h"

namespace warpconv::cuda {

/** As Backend::measure, of a measurable problem, on a queue that nobody else uses meanwhile. */
Result<std::vector<Measurement>> tune(Queue& queue, const PlanProblem& asked, const Cancellation* cancellation);

}  // namespace warpconv::cuda
