#include "planner/choose.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "weights/second_form.h"

namespace warpconv {
namespace {

/** The algorithms of all devices (lib/conv2d/names.ts has the same for callers). */
constexpr std::array<std::string_view, 11> kAlgorithms{
    "direct", "shuffle", "pointwise", "im2win", "halo", "stem", "implicit", "im2col", "sconv", "winograd", "depthwise"};

Status unknownAlgorithm(const std::vector<Candidate>& candidates, const std::string& name, const std::string& device) {
  std::string names = "'auto', 'tune'";
  for (const Candidate& candidate : candidates) names += ", '" + candidate.algorithm + "'";
  if (std::find(kAlgorithms.begin(), kAlgorithms.end(), name) != kAlgorithms.end()) {
    return unsupported("options.algorithm '" + name + "' does not run on device '" + device + "'; it has " + names);
  }
  return invalidArgument("options.algorithm '" + name + "' does not exist; device '" + device + "' has " + names);
}

Result<size_t> choosePinned(const std::vector<Candidate>& candidates, const std::string& name,
                            const std::string& device) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].algorithm != name) continue;
    if (candidates[i].accepts()) return i;
    return unsupported("options.algorithm '" + name + "' refuses this problem: " + candidates[i].refusal);
  }
  return unknownAlgorithm(candidates, name, device);
}

Result<size_t> chooseFastest(const std::vector<Candidate>& candidates, const std::string& device) {
  if (candidates.empty()) return unsupported("device '" + device + "' has no algorithms");
  const auto preferred = [](const Candidate& a, const Candidate& b) {
    if (a.accepts() != b.accepts()) return a.accepts();
    return a.estimate.milliseconds < b.estimate.milliseconds;
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(), preferred);
  if (best->accepts()) return static_cast<size_t>(best - candidates.begin());
  std::string reasons;
  for (const Candidate& one : candidates)
    reasons += (reasons.empty() ? "'" : "; '") + one.algorithm + "' " + one.refusal;
  return unsupported("every algorithm refuses this problem: " + reasons);
}

bool isOpen(const PlanRequest& request) { return request.algorithm == "auto" || request.algorithm == "tune"; }

}  // namespace

Result<size_t> choose(const std::vector<Candidate>& candidates, const PlanRequest& request, const std::string& device) {
  if (request.algorithm != "sconv" && request.switches != sconv::Switches{}) {
    return invalidArgument("options.sconv is for options.algorithm 'sconv', which is '" + request.algorithm +
                           "'; set it to 'sconv', or leave options.sconv out");
  }
  return isOpen(request) ? chooseFastest(candidates, device) : choosePinned(candidates, request.algorithm, device);
}

size_t preferPacked(const std::vector<Candidate>& candidates, size_t chosen, const PlanRequest& request,
                    const std::function<bool(const Candidate&)>& isPacked) {
  if (!isOpen(request) || isPacked(candidates[chosen])) return chosen;
  size_t best = chosen;
  double limit = candidates[chosen].estimate.milliseconds * kLeastGainOfSecondForm;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double milliseconds = candidates[i].estimate.milliseconds;
    if (!candidates[i].accepts() || milliseconds >= limit || !isPacked(candidates[i])) continue;
    best = i;
    limit = milliseconds;
  }
  return best;
}

}  // namespace warpconv
