#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/** How far an output is from the exact one. */
struct Errors {
  /** The largest |output - exact|; NaN when an output is */
  double absolute = 0;
  /** The largest |output - exact| / (|input| * |weight|): float32 algorithms stay within 4e-6 */
  double relative = 0;
};

/** In double, from the definition: slow, and the judge of fast ones. */
class Oracle {
 public:
  /** Enqueues the computation on `stream`. */
  static Result<Oracle> create(const ConvProblem& problem, const float* input, const float* weight, Device& device,
                               cudaStream_t stream);
  /** Blocks. */
  Result<Errors> judge(const float* output, Device& device, cudaStream_t stream) const;

 private:
  Oracle(int64_t outputs, DeviceMemory exact, DeviceMemory magnitude)
      : outputs_(outputs), exact_(std::move(exact)), magnitude_(std::move(magnitude)) {}

  int64_t outputs_;
  DeviceMemory exact_;
  DeviceMemory magnitude_;
};

}  // namespace warpconv::cuda
