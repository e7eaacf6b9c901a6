#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/convolution.h"
#include "cpu/sconv/slicing.h"

namespace warpconv {

/** What may be chosen. */
struct PlanRequest {
  /** `auto` or the name of an algorithm */
  std::string algorithm = "auto";
  /** Bytes of scratch memory a running call may take; no limit when absent */
  std::optional<int64_t> workspaceLimit = std::nullopt;
  /** For experiments with `sconv`, which must then be pinned */
  sconv::Switches switches = {};
};

/** One algorithm's answer to a problem: an estimate, or the sentence that refuses it. */
struct Candidate {
  const CpuAlgorithm* algorithm = nullptr;
  std::string refusal;
  Estimate estimate;

  bool accepts() const { return refusal.empty(); }
};

/** The decision for one problem: which algorithm, and what was said of every other. */
struct Plan {
  ConvProblem problem;
  Activation activation;
  /** The machine it was made for */
  CpuInfo cpu;
  sconv::Switches switches = {};
  std::vector<Candidate> candidates;
  size_t chosen = 0;

  const Candidate& choice() const { return candidates[chosen]; }
};

/** Every algorithm's answer, in the order of the list. */
std::vector<Candidate> listCandidates(const ConvProblem& problem, const PlanRequest& request, const CpuInfo& cpu);

/**
 * Chooses: the accepting candidate with the lowest predicted time, the earlier one on a tie, or the pinned one. A pure
 * function of its arguments. Fails with `unsupported` when the pinned algorithm refuses or belongs to another device,
 * and with `invalidArgument` when there is none of that name, or when there are switches of `sconv` for another.
 */
Result<Plan> makePlan(const ConvProblem& problem, const Activation& activation, const PlanRequest& request,
                      const CpuInfo& cpu);

}  // namespace warpconv
