#pragma once

#include <functional>
#include <optional>
#include <string>

#include "backend/estimate.h"
#include "problem/plan_request.h"

namespace warpconv {

/** One algorithm's answer to a problem: an estimate, or the sentence that refuses it. */
struct Candidate {
  std::string algorithm;
  std::string refusal;
  Estimate estimate;

  bool accepts() const { return refusal.empty(); }
};

/** An algorithm's answer: what `estimate()` says, unless it is refused or would need too much scratch memory. */
Candidate answer(const char* algorithm, std::optional<std::string> refusal, const PlanRequest& request,
                 const std::function<Estimate()>& estimate);

}  // namespace warpconv
