#pragma once

namespace warpconv::cuda {

/** One call's tensors in device memory, as the problem's format says. `residual` has the output's extents, or is null.
 */
struct GpuTensors {
  const void* input = nullptr;
  const void* residual = nullptr;
  void* output = nullptr;
};

/** The same in float32. */
struct FloatTensors {
  const float* input = nullptr;
  const float* residual = nullptr;
  float* output = nullptr;
};

inline FloatTensors floatsOf(const GpuTensors& tensors) {
  return {static_cast<const float*>(tensors.input), static_cast<const float*>(tensors.residual),
          static_cast<float*>(tensors.output)};
}

}  // namespace warpconv::cuda
