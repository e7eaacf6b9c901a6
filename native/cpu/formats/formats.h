#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/** One call's tensors in the formats of their problem. `residual` is null where there is none. */
struct FormattedTensors {
  const void* input = nullptr;
  const void* residual = nullptr;
  void* output = nullptr;
};

/** The problem as algorithms are asked for it: they compute in float32 and NCHW. */
ConvProblem plainProblem(const ConvProblem& problem);

/** An algorithm's estimate for the plain problem, with what converting the problem's tensors takes. */
Estimate withConversions(Estimate estimate, const ConvProblem& problem);

/**
 * Runs what was prepared for the plain problem: operands in other formats become float32 in NCHW in scratch memory, and
 * what is computed is rounded once, to the nearest, ties to even; what is beyond a type becomes infinite. Nothing is
 * written between pixels that are apart.
 */
Status runFormatted(const CpuConvolution& plain, const ConvProblem& problem, const FormattedTensors& tensors,
                    const RunContext& context);

/** The elements of a tensor of N images, so many channels and pixels, in the order of NCHW. */
void toPlain(const TensorFormat& format, int64_t n, int64_t channels, int64_t area, const void* from, float* to,
             const RunContext& context);
void fromPlain(const TensorFormat& format, int64_t n, int64_t channels, int64_t area, const float* from, void* to,
               const RunContext& context);

}  // namespace warpconv
