#pragma once

#include <cstdint>

#include "cuda/traits.h"
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

/** Tiles of so many filters and pixels that cover the whole output. */
int64_t tilesOf(const Matrix& matrix, int64_t filters, int64_t pixels);

}  // namespace warpconv::cuda::pointwise
