#pragma once

#include <span>

#include "cpu/microkernels/microkernel.h"

namespace warpconv {

/** An output map, or two adjacent ones, each of an input map of its own: what belongs to the second lies behind. */
struct DepthwiseMaps {
  const ConvProblem* problem;
  /** 1, or 2 where the kernel takes pairs */
  int64_t count;
  /** count x H x W */
  const float* input;
  /** count x R x S */
  const float* filter;
  /** count x P x Q */
  float* output;
  /** A bias for each map, and a residual of count x P x Q or null */
  Finish finish;
};

/** Widest filter that depthwise_strips.h takes. */
inline constexpr int64_t kMostStripColumns = 16;

/** Whether depthwise_strips.h takes the problem; only the portable kernel takes others. */
bool takesStrips(const ConvProblem& problem);

/** Convolves maps for one instruction set. The weights of padded problems are finite: padded elements may be zeros. */
struct DepthwiseKernel {
  const char* name;
  Isa isa;
  /** What one core reaches in whole layers, beside the definition of each kernel; for predictions */
  double multiplyAddsPerMillisecond;
  /** Whether two maps of the problem at once are faster than one by one; null for never */
  bool (*takesPairs)(const ConvProblem& problem);
  void (*convolve)(const DepthwiseMaps& maps);
};

/** All that were built, narrowest instruction set first. */
std::span<const DepthwiseKernel* const> depthwiseKernels();

}  // namespace warpconv
