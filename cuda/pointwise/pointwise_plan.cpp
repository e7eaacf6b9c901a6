#include "cuda/pointwise/planner.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/shape.h"

namespace warpconv::cuda {

std::optional<std::string> refusePointwise(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (x.r != 1 || x.s != 1) {
    return "takes 1 x 1 filters; this problem has " + std::to_string(x.r) + " x " + std::to_string(x.s) + " ones";
  }
  if (x.hasPadding()) {
    return "takes no padding; this problem has " + std::to_string(x.padding.top) + " rows above, " +
           std::to_string(x.padding.bottom) + " below, " + std::to_string(x.padding.left) +
           " columns to the left and " + std::to_string(x.padding.right) + " to the right";
  }
  if (auto large = refuseLarge(x)) return large;
  const std::vector<pointwise::Candidate> candidates = pointwise::planPointwise(x, request.traits);
  if (pointwise::findCandidate(candidates, request.variant)) return std::nullopt;
  return "takes the variants whose blocking leads to a kernel; for this problem '" + request.variant + "' does not";
}

Estimate estimatePointwise(const GpuRequest& request) {
  const auto candidate =
      *pointwise::findCandidate(pointwise::planPointwise(request.problem, request.traits), request.variant);
  Estimate estimate{candidate.milliseconds, 0, {}};
  if (const auto* tile = std::get_if<pointwise::DynamicTile>(&candidate.tile)) {
    estimate.tiles = {{"layout", static_cast<int64_t>(tile->layout)},
                      {"C_num", tile->channels},
                      {"T_num", tile->elements},
                      {"Warp_H", tile->height},
                      {"BlockTile_W", tile->blockWidth()},
                      {"BlockTile_H", tile->blockHeight()},
                      {"Iter", candidate.iterations}};
  } else {
    const auto& gemm = std::get<pointwise::GemmTile>(candidate.tile);
    estimate.tiles = {{"filters", gemm.filters},
                      {"pixels", gemm.pixels},
                      {"channels", gemm.channels},
                      {"stages", gemm.stages},
                      {"split", candidate.split}};
  }
  return estimate;
}

}  // namespace warpconv::cuda
