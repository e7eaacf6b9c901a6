#pragma once

#include <optional>
#include <string>

#include "problem/conv_problem.h"

namespace warpconv::cuda {

/**
 * The most elements of a tensor whose offsets kernels compute in 32 bits. The threads of the last block, and the lanes
 * of the last tile, count beyond the end: there is room for 2^16 of them.
 */
inline constexpr int64_t kMostElements = kMaxExtent - (int64_t{1} << 16);

/** A problem in the 32-bit integers that kernels compute with: every offset into a tensor fits. */
struct Shape {
  int n, c, h, w;
  int k, r, s;
  int p, q;
  int strideH, strideW;
  int dilationH, dilationW;
  int padTop, padLeft;
  int groups, groupInputs, groupOutputs;
};

/** The sentence that refuses a problem whose offsets need more than 32 bits, or nothing. */
std::optional<std::string> refuseLarge(const ConvProblem& problem);

/** Only for problems that `refuseLarge` lets pass. */
Shape shapeOf(const ConvProblem& problem);

}  // namespace warpconv::cuda
