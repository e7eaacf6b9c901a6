#include <algorithm>

#include "cuda/direct/direct.h"

namespace warpconv::cuda {

std::optional<std::string> refuseDirect(const GpuRequest&) { return std::nullopt; }

Estimate estimateDirect(const GpuRequest& request) {
  // Two loads and 64-bit index arithmetic for each multiply-add: 0.3 to 1.1 of the 67 TFLOP/s of an H200, measured on
  // the named layers of the bench.
  constexpr double kShareOfPeak = 0.01;
  constexpr double kLaunchMilliseconds = 0.003;
  // A thread's multiply-adds follow each other, with loads that few others hide where there are few outputs: 0.442 ms
  // for 4056 of them in MobileNetV3's eight reductions of 1 x 1 maps, on an H200.
  constexpr double kTapMilliseconds = 0.0001;
  const double flops = 2 * request.problem.multiplyAdds();
  const double throughput = flops / (kShareOfPeak * request.traits.flopsPerSecond) * 1e3;
  const double latency = kTapMilliseconds * static_cast<double>(request.problem.filterSize());
  return {kLaunchMilliseconds + std::max(throughput, latency), 0, {}};
}

std::vector<FilterForm> formsDirect(const GpuRequest& request, const Weights&) { return {givenForm(request.problem)}; }

}  // namespace warpconv::cuda
