#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cuda/planning/traits.h"
#include "cuda/pointwise/candidate.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda::pointwise {

/**
 * Dynamic blocking (Lu, Zhang, Wang: Optimizing Depthwise Separable Convolution Operations on GPUs): every candidate,
 * of which exactly one is chosen. The paper's candidates compete by M_A and M_B; the best of them and those of all
 * other families (families.h), by predicted time. Only for problems with 1 x 1 filters.
 */
std::vector<Candidate> planPointwise(const ConvProblem& problem, const GpuTraits& traits, const Models& models = {});

/** Of `pixels`, those that each of as few tiles as can be, of up to `most`, has: whole fours. */
int64_t pixelsOfTile(int64_t pixels, int most);

/**
 * Copies of filters in memory, a power of two. Blocks that begin together read the same filters. Few cache lines keep
 * few slices of the L2 cache busy, so small filters are copied up to this many bytes together, and tiles of pixels read
 * the copies in turns (docs/experiments.md).
 */
inline constexpr int64_t kMostCopiedBytes = 512 * 1024;
constexpr int copiesOf(int64_t bytes, int64_t pixelTiles) {
  int copies = 1;
  while (2 * copies * bytes <= kMostCopiedBytes && 2 * copies <= pixelTiles) copies *= 2;
  return copies;
}

/** The chosen one for the empty variant, else the one of that name; nothing where it has no kernel. */
std::optional<Candidate> findCandidate(const std::vector<Candidate>& candidates, std::string_view variant);

}  // namespace warpconv::cuda::pointwise
