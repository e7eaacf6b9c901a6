#pragma once

#include <cstdint>

#include "cuda/planning/traits.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda::pointwise {

/** The output matrix as the planner sees it: of one group, and what one multiprocessor has to do of all groups. */
struct Matrix {
  int64_t filters;
  int64_t pixels;
  int64_t channels;
  int64_t groups;
  int64_t outputsPerMultiprocessor;
  /** Pixels can be copied by fours. */
  bool aligned;
  /** Input, output and filters, once each */
  double tensorBytes;
  /** Of the device: in which each of a multiprocessor's four parts issues an instruction of a warp */
  double instructionSeconds;
};

Matrix matrixOf(const ConvProblem& problem, const GpuTraits& traits);

/** The number of tiles of `filters` x `pixels` in the output. */
int64_t tilesOf(const Matrix& matrix, int64_t filters, int64_t pixels);

/** Whether tensor cores are fast, and sums long enough for their accuracy (kLeastTensorSum). */
inline bool isForTensorCores(const Matrix& matrix, const GpuTraits& traits) {
  return hasFastTensorCores(traits) && matrix.channels >= kLeastTensorSum;
}

/** The same for FP16 and TF32 products of warpgroups. */
inline bool isForWarpgroups(const Matrix& matrix, const GpuTraits& traits) {
  return hasWarpgroupProducts(traits) && matrix.channels >= kLeastTensorSum;
}

}  // namespace warpconv::cuda::pointwise
