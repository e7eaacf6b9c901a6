#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "cuda/planning/shape.h"
#include "cuda/pointwise/filter_forms.h"
#include "cuda/pointwise/planner.h"
#include "cuda/pointwise/pointwise.h"

namespace warpconv::cuda {
namespace {

Tiles tilesOf(const pointwise::Candidate& candidate) {
  const auto describe = [&]<typename Tile>(const Tile& tile) -> Tiles {
    if constexpr (std::is_same_v<Tile, std::monostate>) {
      return {};
    } else {
      return tile.describe(candidate);
    }
  };
  return std::visit(describe, candidate.tile);
}

ConsideredKernel considered(const pointwise::Candidate& candidate, const std::string& chosen,
                            const std::string& variant) {
  ConsideredKernel kernel{candidate.name(), tilesOf(candidate), {}, {}};
  const bool isChosen = kernel.name == chosen;
  if (!isChosen) kernel.lost = candidate.lost();
  if (!isChosen && kernel.lost.empty()) kernel.lost = "would be chosen if options.variant were not '" + variant + "'";
  if (kernel.tiles.empty()) return kernel;
  kernel.figures = {{"M_A", candidate.intensity},
                    {"M_B", static_cast<double>(candidate.blocks)},
                    {"registers", candidate.registers},
                    {"sharedBytes", static_cast<double>(candidate.sharedBytes)},
                    {"milliseconds", candidate.milliseconds}};
  return kernel;
}

}  // namespace

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
  // There is one for every problem.
  if (request.variant.empty()) return std::nullopt;
  const std::vector<pointwise::Candidate> candidates = pointwise::planPointwise(x, request.traits);
  if (pointwise::findCandidate(candidates, request.variant)) return std::nullopt;
  return "takes the variants whose blocking leads to a kernel; for this problem '" + request.variant + "' does not";
}

Estimate estimatePointwise(const GpuRequest& request) {
  std::vector<pointwise::Candidate> candidates = pointwise::planPointwise(request.problem, request.traits);
  const pointwise::Candidate chosen = *pointwise::findCandidate(candidates, request.variant);
  return {chosen.milliseconds, 0, tilesOf(chosen),
          [candidates = std::move(candidates), name = chosen.name(), variant = request.variant] {
            std::vector<ConsideredKernel> kernels;
            for (const pointwise::Candidate& candidate : candidates) {
              kernels.push_back(considered(candidate, name, variant));
            }
            return kernels;
          }};
}

namespace {

std::vector<FilterForm> formsTaken(const ConvProblem& problem, const pointwise::Candidate& candidate,
                                   const Weights& weights) {
  const pointwise::FilterForms forms = pointwise::formsOf(problem, candidate, weights);
  std::vector<FilterForm> taken{forms.transposed.form};
  if (forms.halves) taken.push_back(forms.halves->form);
  return taken;
}

}  // namespace

std::vector<FilterForm> formsPointwise(const GpuRequest& request, const Weights& weights) {
  const auto candidates = pointwise::planPointwise(request.problem, request.traits);
  return formsTaken(request.problem, *pointwise::findCandidate(candidates, request.variant), weights);
}

std::optional<std::string> packedPointwiseVariant(const GpuRequest& request, const Weights& weights) {
  std::vector<pointwise::Candidate> candidates = pointwise::planPointwise(request.problem, request.traits);
  std::erase_if(candidates, [&](const pointwise::Candidate& one) {
    const bool isSlower = one.loss == pointwise::Loss::slower;
    return !(one.isChosen() || isSlower) || !areIn(formsTaken(request.problem, one, weights), weights);
  });
  const auto isFaster = [](const auto& a, const auto& b) { return a.milliseconds < b.milliseconds; };
  const auto fastest = std::min_element(candidates.begin(), candidates.end(), isFaster);
  return fastest == candidates.end() ? std::nullopt : std::optional(fastest->name());
}

}  // namespace warpconv::cuda
