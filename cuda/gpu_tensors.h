#pragma once

namespace warpconv::cuda {

/** One call's tensors in device memory: dense NCHW float32. `residual` has the output's extents, or is null. */
struct GpuTensors {
  const float* input = nullptr;
  const float* residual = nullptr;
  float* output = nullptr;
};

}  // namespace warpconv::cuda
