#include "cuda/direct/direct.h"

namespace warpconv::cuda {

std::optional<std::string> refuseDirect(const GpuRequest&) { return std::nullopt; }

Estimate estimateDirect(const GpuRequest& request) {
  // Two loads and 64-bit index arithmetic for each multiply-add: 0.3 to 1.1 of the 67 TFLOP/s of an H200, measured on
  // the named layers of the bench.
  constexpr double kShareOfPeak = 0.01;
  constexpr double kLaunchMilliseconds = 0.003;
  const double flops = 2 * request.problem.multiplyAdds();
  return {kLaunchMilliseconds + flops / (kShareOfPeak * request.traits.flopsPerSecond) * 1e3, 0, {}};
}

}  // namespace warpconv::cuda
