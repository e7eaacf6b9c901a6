#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backend/estimate.h"

namespace warpconv::cuda {

/** The variant of the plan that is predicted to take least time; nothing where there is no plan. */
template <typename NamedTile, typename Plan>
std::optional<std::string> fastestTile(const NamedTile* tiles, const std::vector<Plan>& plans) {
  const auto isFaster = [](const Plan& a, const Plan& b) { return a.milliseconds < b.milliseconds; };
  const auto fastest = std::min_element(plans.begin(), plans.end(), isFaster);
  return fastest == plans.end() ? std::nullopt : std::optional(std::string(tiles[fastest->tile].variant));
}

/** What `chosen` was chosen from, by predicted time; `tiles` are named, and plans have one each. */
template <typename NamedTile, typename Plan>
std::vector<ConsideredKernel> consideredTiles(const NamedTile* tiles, const std::vector<Plan>& plans,
                                              const Plan& chosen, Tiles (*tilesOf)(const Plan&)) {
  std::vector<ConsideredKernel> kernels;
  for (const Plan& plan : plans) {
    kernels.push_back({std::string(tiles[plan.tile].variant),
                       tilesOf(plan),
                       {{"milliseconds", plan.milliseconds}},
                       plan.tile == chosen.tile ? "" : "is predicted slower"});
  }
  return kernels;
}

}  // namespace warpconv::cuda
