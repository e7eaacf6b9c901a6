#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/algorithm/cpu_algorithm.h"
#include "cpu/sconv/slicing.h"

namespace warpconv {

/** What may be chosen. */
struct PlanRequest {
  /** `auto`, the name of an algorithm, or `tune`, which is like `auto` for as long as nothing has been measured */
  std::string algorithm = "auto";
  /** On a GPU: a variant of the pinned algorithm, for ablations; empty for its own choice */
  std::string variant = {};
  /** Bytes of scratch memory a running call may take; no limit when absent */
  std::optional<int64_t> workspaceLimit = std::nullopt;
  /** For experiments with `sconv`, which must then be pinned */
  sconv::Switches switches = {};

  bool operator==(const PlanRequest&) const = default;
};

/** One algorithm's answer to a problem: an estimate, or the sentence that refuses it. */
struct Candidate {
  std::string algorithm;
  std::string refusal;
  Estimate estimate;

  bool accepts() const { return refusal.empty(); }
};

/**
 * Which of a device's candidates: the accepting one with the lowest predicted time, the earlier one on a tie, or the
 * pinned one. Fails with `unsupported` when the pinned algorithm refuses or is not among them but exists for other
 * devices, and with `invalidArgument` when there is none of that name, or when there are switches of `sconv` for
 * another. `device` is for the sentences.
 */
Result<size_t> choose(const std::vector<Candidate>& candidates, const PlanRequest& request, const std::string& device);

/**
 * How many times as fast a convolution has to become for weights to be kept in one more form. Most of a network's memory
 * are weights, and sessions see inputs of many extents: few choices between forms are worth much, and those are.
 */
inline constexpr double kLeastGainOfSecondForm = 1.25;

/**
 * `chosen`, or the fastest of those whose forms of the weights are there already where it is nearly as fast: see
 * kLeastGainOfSecondForm. What was pinned stays.
 */
size_t preferPacked(const std::vector<Candidate>& candidates, size_t chosen, const PlanRequest& request,
                    const std::function<bool(const Candidate&)>& isPacked);

/** An algorithm's answer: what `estimate()` says, unless it is refused or would need too much scratch memory. */
Candidate answer(const char* algorithm, std::optional<std::string> refusal, const PlanRequest& request,
                 const std::function<Estimate()>& estimate);

/** Every CPU algorithm's answer, in the order of the list. */
std::vector<Candidate> listCandidates(const ConvProblem& problem, const PlanRequest& request, const CpuInfo& cpu);

}  // namespace warpconv
