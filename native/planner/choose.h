#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "backend/answer.h"
#include "problem/plan_request.h"
#include "status.h"

namespace warpconv {

/**
 * Which of a device's candidates: the accepting one with the lowest predicted time, the earlier one on a tie, or the
 * pinned one. Fails with `unsupported` when the pinned algorithm refuses or is not among them but exists for other
 * devices, and with `invalidArgument` when there is none of that name, or when there are switches of `sconv` for
 * another. `device` is for the sentences.
 */
Result<size_t> choose(const std::vector<Candidate>& candidates, const PlanRequest& request, const std::string& device);

/**
 * `chosen`, or the fastest of those whose forms of the weights are there already where it is nearly as fast: see
 * kLeastGainOfSecondForm. What was pinned stays.
 */
size_t preferPacked(const std::vector<Candidate>& candidates, size_t chosen, const PlanRequest& request,
                    const std::function<bool(const Candidate&)>& isPacked);

}  // namespace warpconv
