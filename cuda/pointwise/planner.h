#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cuda/pointwise/candidate.h"
#include "cuda/traits.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda::pointwise {

/**
 * Dynamic blocking (Lu, Zhang, Wang: Optimizing Depthwise Separable Convolution Operations on GPUs): every candidate,
 * of which exactly one is chosen. The paper's candidates compete by M_A and M_B; the best of them and those of all
 * other families (families.h), by predicted time. Only for problems with 1 x 1 filters.
 */
std::vector<Candidate> planPointwise(const ConvProblem& problem, const GpuTraits& traits,
                                     const Models& models = kModels);

/** Of `pixels`, those that each of as few tiles as can be, of up to `most`, has: whole fours. */
int64_t pixelsOfTile(int64_t pixels, int most);

/**
 * How often filters of so many bytes should lie in memory, a power of two. Blocks that begin together read the same
 * filters: each line of them from one slice of the L2 cache, once for each tile of pixels. Few lines keep few slices
 * busy, and some of these with several: on an H100 the same kernel took 2.97 or 3.34 us on pw_112_16_96, by where its 6
 * KB of filters lay. So small filters lie there several times, up to so many bytes together, and tiles of pixels read
 * the copies in turns: 2.94 there, 2.07 for 2.14 to 2.28 on pw_56_144_24, 1.88 for 1.98 on pw_112_32_16. With a quarter
 * of these bytes pw_112_16_96 took 2.75 for 2.69, pw_56_64_256 3.09 for 3.04 and pw_14_384_96 2.00 for 1.98; with twice
 * as many, seventeen kernels took 0.3 % less on average.
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
