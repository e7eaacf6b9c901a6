#pragma once

#include "cuda/host/device.h"
#include "gpu/contest_types.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda {

/** How a contestant's tensors lie in memory. */
struct TensorForm {
  TensorLayout layout = TensorLayout::nchw;
  /** Instead of float32 */
  bool half = false;

  int64_t elementBytes() const { return half ? 2 : 4; }
  auto operator<=>(const TensorForm&) const = default;
};

/** The tensors of one convolution on the device. Filters are K C R S or K R S C. */
struct ContestTensors {
  TensorForm form;
  DeviceMemory input;
  DeviceMemory weight;
  DeviceMemory output;

  /** Uninitialised. */
  static Result<ContestTensors> allocate(const ConvProblem& problem, TensorForm form, Device& device);
};

/** Copies input and weight of `plain`, which is NCHW in float32, in the form of `to`. */
Status convertOperands(const ConvProblem& problem, const ContestTensors& plain, const ContestTensors& to,
                       cudaStream_t stream);

/** Copies the output of `from` to that of `plain`, which is NCHW in float32. */
Status convertOutput(const ConvProblem& problem, const ContestTensors& from, const ContestTensors& plain,
                     cudaStream_t stream);

}  // namespace warpconv::cuda
