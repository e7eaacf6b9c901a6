#pragma once

#include <optional>
#include <string>

#include "problem/conv_problem.h"

namespace warpconv::cuda {

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
