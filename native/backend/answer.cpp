#include "backend/answer.h"

#include <utility>

namespace warpconv {

Candidate answer(const char* algorithm, std::optional<std::string> refusal, const PlanRequest& request,
                 const std::function<Estimate()>& estimate) {
  if (refusal) return {algorithm, std::move(*refusal), {}};
  Candidate candidate{algorithm, "", estimate()};
  if (request.workspaceLimit && candidate.estimate.workspaceBytes > *request.workspaceLimit) {
    candidate.refusal = "needs " + std::to_string(candidate.estimate.workspaceBytes) +
                        " bytes of workspace; options.workspaceLimit is " + std::to_string(*request.workspaceLimit);
  }
  return candidate;
}

}  // namespace warpconv
