#pragma once

#include <vector>

#include "cuda/pointwise/candidate.h"
#include "cuda/pointwise/matrix.h"

namespace warpconv::cuda::pointwise {

/** C_num, and blocks of a multiprocessor, that the paper's planner chooses from */
inline constexpr int kChannelCounts[] = {1, 2, 4, 8, 16, 32};
inline constexpr int kResidentBlocks[] = {2, 4};

/** The paper's candidates, one for each C_num and number of blocks. The best by M_A and M_B, if any, is marked. */
std::vector<Candidate> planBlocking(const Matrix& matrix, const GpuTraits& traits);

}  // namespace warpconv::cuda::pointwise
