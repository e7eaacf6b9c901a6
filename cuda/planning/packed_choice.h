#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/answer.h"
#include "cuda/algorithm.h"

namespace warpconv::cuda {

/** What computes a convolution of a network. */
struct PackedChoice {
  /** Of the algorithms */
  size_t algorithm = 0;
  /** Empty for its own choice */
  std::string variant;
  Candidate candidate;
};

/**
 * The algorithm of number `fastest`, or the fastest of what takes filters in forms that are there, where that is nearly
 * as fast (see kLeastGainOfSecondForm). Variants count, too: a tile decides the form. Another algorithm is taken only
 * where the request leaves it open. `candidates` are the algorithms' answers to the request.
 */
PackedChoice choosePacked(std::span<const GpuAlgorithm> algorithms, const std::vector<Candidate>& candidates,
                          size_t fastest, const PlanRequest& asked, const GpuRequest& request, const Weights& weights);

}  // namespace warpconv::cuda
