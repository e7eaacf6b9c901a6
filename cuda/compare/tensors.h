#pragma once

#include "cuda/host/device.h"
#include "problem/conv_problem.h"
#include "problem/plan_request.h"

namespace warpconv::cuda {

/** The tensors of one convolution on the device, all in one format. Filters are K C R S, or in NHWC K R S C. */
struct ContestTensors {
  TensorFormat format;
  DeviceMemory input;
  DeviceMemory weight;
  DeviceMemory output;

  /** Uninitialised. */
  static Result<ContestTensors> allocate(const ConvProblem& problem, const TensorFormat& format, Device& device);
};

/** The type of tensors whose products have that precision. */
FloatType typeFor(Precision precision);

/** Copies input and weight of `plain`, which is NCHW in float32, in the format of `to`. */
Status convertOperands(const ConvProblem& problem, const ContestTensors& plain, const ContestTensors& to,
                       cudaStream_t stream);

/** Copies the output of `from` to that of `plain`, which is NCHW in float32. */
Status convertOutput(const ConvProblem& problem, const ContestTensors& from, const ContestTensors& plain,
                     cudaStream_t stream);

}  // namespace warpconv::cuda
