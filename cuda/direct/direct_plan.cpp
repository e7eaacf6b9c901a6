#include "cuda/direct/direct.h"

namespace warpconv::cuda {

std::optional<std::string> refuseDirect(const GpuRequest&) { return std::nullopt; }

Estimate estimateDirect(const GpuRequest& request) {
  // Two loads for each multiply-add.
  constexpr double kShareOfPeak = 0.05;
  constexpr double kLaunchMilliseconds = 0.003;
  const double flops = 2 * request.problem.multiplyAdds();
  return {kLaunchMilliseconds + flops / (kShareOfPeak * request.traits.flopsPerSecond) * 1e3, 0, {}};
}

}  // namespace warpconv::cuda
