#pragma once

#include <cstdint>
#include <vector>

#include "problem/conv_problem.h"

namespace warpconv::cuda::halo {

/**
 * One axis of the grid. Padded input element x is of phase x % stride and at place x / stride; output i reads of phase
 * tap * dilation % stride the place i + tap * dilation / stride.
 */
struct GridAxis {
  /** Of which taps read some elements */
  int64_t phases = 1;
  /**
   * Places from one row, or image, to the next. Padding behind a row is that before the next one where there is enough
   * of it: what a window reads beyond the pitch are zeros of the next row.
   */
  int64_t pitch = 1;
};

GridAxis gridAxis(int64_t input, int64_t output, int64_t taps, int64_t stride, int64_t dilation, int64_t padBefore);

/** Where tap (r, s) reads: in which phase, and how many positions after the output's own. */
struct Tap {
  int64_t phase;
  int64_t shift;
};

/**
 * A convolution as sums over taps of matrices that begin at different places. Images, rows and columns lie one after
 * the other in a line of positions; position (n * rows.pitch + p) * columns.pitch + q is that of output (n, p, q) and,
 * in each phase, of one input element or padding. Positions between outputs are computed with and not stored.
 */
struct Grid {
  GridAxis rows, columns;
  int64_t positions = 0;
  /** Row by row of the filter */
  std::vector<Tap> taps;
  /** The largest shift */
  int64_t reach = 0;

  int64_t phases() const { return rows.phases * columns.phases; }
};

/** For problems of 32-bit offsets. */
Grid makeGrid(const ConvProblem& problem);

}  // namespace warpconv::cuda::halo
