#pragma once

#include <span>

#include "cpu/microkernels/microkernel.h"

namespace warpconv {

/** One input map and one of its filters. */
struct DepthwiseMap {
  const ConvProblem* problem;
  /** H x W */
  const float* input;
  /** R x S */
  const float* filter;
  /** P x Q */
  float* output;
  /** One bias, and a residual of P x Q or null */
  Finish finish;
};

/** Convolves one map for one instruction set. Padded elements are skipped or masked, never multiplied. */
struct DepthwiseKernel {
  const char* name;
  Isa isa;
  /** Widest filter it takes */
  int64_t mostColumns;
  /** What one core reaches in whole layers, beside the definition of each kernel; for predictions */
  double multiplyAddsPerMillisecond;
  void (*convolve)(const DepthwiseMap& map);
};

/** All that were built, narrowest instruction set first. */
std::span<const DepthwiseKernel* const> depthwiseKernels();

}  // namespace warpconv
