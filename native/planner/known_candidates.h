#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace warpconv {

/** What a backend answers to the problems of one network. Each is asked once: most layers are like another one. */
class KnownCandidates {
 public:
  explicit KnownCandidates(const Backend& backend) : backend_(backend) {}

  std::string device() const { return backend_.device(); }

  /** Valid as long as this */
  const std::vector<Candidate>& of(const PlanProblem& asked) {
    for (const auto& [problem, candidates] : known_) {
      if (problem == asked) return candidates;
    }
    return known_.emplace_back(asked, backend_.candidates(asked)).second;
  }

 private:
  const Backend& backend_;
  std::deque<std::pair<PlanProblem, std::vector<Candidate>>> known_;
};

}  // namespace warpconv
