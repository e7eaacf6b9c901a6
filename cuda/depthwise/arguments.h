#pragma once

#include <cuda_runtime_api.h>

#include "cuda/depthwise/plan.h"
#include "cuda/epilogue/bounded_activation.h"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda::depthwise {

/** Everything one launch reads. */
struct Arguments {
  Shape shape;
  const void* input;
  /** Of the output's extents, or null */
  const void* residual;
  void* output;
  /** [R * S][C], float32 */
  const float* filter;
  /** Of each channel, or null */
  const float* bias;
  BoundedActivation activation;
  /** Bytes from one pixel to the next */
  unsigned inputPitch, residualPitch, outputPitch;

  /** Output rows of a thread */
  int run;
  /** Threads beside each other that have channels of the same pixels: a slice of the channels */
  int lanes;
  /** By the lanes, the strips of an output row, the slices of the channels, and the runs of a map */
  FastDivisor byLanes, byStrips, bySlices, byRuns;
};

/** What depends neither on the call's tensors nor on the weights. */
inline Arguments argumentsOf(const ConvProblem& problem, const Plan& plan) {
  const auto pitchOf = [&](const TensorFormat& format) {
    return static_cast<unsigned>((format.pitch == 0 ? problem.c : format.pitch) * widthOf(format.type));
  };
  Arguments x{};
  x.shape = shapeOf(problem);
  x.inputPitch = pitchOf(problem.format.input);
  x.residualPitch = pitchOf(problem.format.residual);
  x.outputPitch = pitchOf(problem.format.output);
  x.run = plan.run;
  x.lanes = plan.lanes;
  x.byLanes = FastDivisor(plan.lanes);
  x.byStrips = FastDivisor(plan.strips);
  x.bySlices = FastDivisor(plan.slices);
  x.byRuns = FastDivisor(plan.runs);
  return x;
}

using Kernel = void (*)(Arguments);

/** Of kTiles[tile], for float16 or bfloat16. */
Kernel kernelOf(int tile, FloatType type);

/** C x 1 x R x S filters as Arguments::filter wants them. */
cudaError_t launchFilterOrder(const Shape& shape, const float* filter, float* ordered, cudaStream_t stream);

}  // namespace warpconv::cuda::depthwise
