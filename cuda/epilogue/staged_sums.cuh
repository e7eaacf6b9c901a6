#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/kernel/cluster.cuh"

namespace warpconv::cuda {

// Sums that threads have written to shared memory for others to finish: [part][row][column], where the parts of a block
// have the same outputs. So do the blocks of a cluster, each with the sums of a share of the products.

/** Adds the parts of a block, `apart` floats from one to the next, of the outputs at `staged`. */
template <int kParts, int kWidth>
__device__ inline void addParts(AdjacentSums<kWidth>& sum, const float* staged, int apart) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) sum.add(staged + part * apart);
}

/** Adds the parts of all blocks of a cluster, one or several, in the order of ranks and parts. */
template <int kWidth, int kParts>
__device__ AdjacentSums<kWidth> sumOfShares(float* own, int blocks, int apart) {
  AdjacentSums<kWidth> sum{};
  if (blocks == 1) {
    addParts<kParts>(sum, own, apart);
    return sum;
  }
#pragma unroll 4
  for (int rank = 0; rank < blocks; ++rank) addParts<kParts>(sum, sharedOf(own, blocks, rank), apart);
  return sum;
}

}  // namespace warpconv::cuda
