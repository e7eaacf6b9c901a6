#include "planner/planner.h"

#include <algorithm>
#include <array>

namespace warpconv {
namespace {

/** Names of the public contract that only other devices have. */
constexpr std::array<std::string_view, 3> kGpuAlgorithms{"shuffle", "pointwise", "im2win"};

std::string cpuAlgorithmNames() {
  std::string names;
  for (const CpuAlgorithm& algorithm : cpuAlgorithms()) names += ", '" + std::string(algorithm.name) + "'";
  return "'auto'" + names;
}

Status unknownAlgorithm(const std::string& name) {
  if (std::find(kGpuAlgorithms.begin(), kGpuAlgorithms.end(), name) != kGpuAlgorithms.end()) {
    return unsupported("options.algorithm '" + name + "' does not run on the CPU; it has " + cpuAlgorithmNames());
  }
  return invalidArgument("options.algorithm '" + name + "' does not exist; the CPU has " + cpuAlgorithmNames());
}

Candidate ask(const CpuAlgorithm& algorithm, const ConvProblem& problem, const PlanRequest& request,
              const CpuInfo& cpu) {
  Candidate candidate{.algorithm = &algorithm, .refusal = "", .estimate = {}};
  if (std::optional<std::string> refusal = algorithm.refusal(problem, request.switches)) {
    candidate.refusal = std::move(*refusal);
    return candidate;
  }
  candidate.estimate = algorithm.estimate(problem, cpu, request.switches);
  if (request.workspaceLimit && candidate.estimate.workspaceBytes > *request.workspaceLimit) {
    candidate.refusal = "needs " + std::to_string(candidate.estimate.workspaceBytes) +
                        " bytes of workspace; options.workspaceLimit is " + std::to_string(*request.workspaceLimit);
  }
  return candidate;
}

Result<size_t> choosePinned(const std::vector<Candidate>& candidates, const std::string& name) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].algorithm->name != name) continue;
    if (candidates[i].accepts()) return i;
    return unsupported("options.algorithm '" + name + "' refuses this problem: " + candidates[i].refusal);
  }
  return unknownAlgorithm(name);
}

Result<size_t> chooseFastest(const std::vector<Candidate>& candidates) {
  const auto preferred = [](const Candidate& a, const Candidate& b) {
    if (a.accepts() != b.accepts()) return a.accepts();
    return a.estimate.milliseconds < b.estimate.milliseconds;
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(), preferred);
  if (best->accepts()) return static_cast<size_t>(best - candidates.begin());
  return unsupported("every algorithm refuses this problem; the last one says: it " + candidates.back().refusal);
}

}  // namespace

std::vector<Candidate> listCandidates(const ConvProblem& problem, const PlanRequest& request, const CpuInfo& cpu) {
  std::vector<Candidate> candidates;
  for (const CpuAlgorithm& algorithm : cpuAlgorithms()) candidates.push_back(ask(algorithm, problem, request, cpu));
  return candidates;
}

Result<Plan> makePlan(const ConvProblem& problem, const Activation& activation, const PlanRequest& request,
                      const CpuInfo& cpu) {
  if (request.algorithm != "sconv" && request.switches != sconv::Switches{}) {
    return invalidArgument("options.sconv is for options.algorithm 'sconv', which is '" + request.algorithm +
                           "'; set it to 'sconv', or leave options.sconv out");
  }
  Plan plan{.problem = problem,
            .activation = activation,
            .cpu = cpu,
            .switches = request.switches,
            .candidates = listCandidates(problem, request, cpu)};
  const Result<size_t> chosen =
      request.algorithm == "auto" ? chooseFastest(plan.candidates) : choosePinned(plan.candidates, request.algorithm);
  if (!chosen.isOk()) return chosen.status();
  plan.chosen = chosen.value();
  return plan;
}

}  // namespace warpconv
