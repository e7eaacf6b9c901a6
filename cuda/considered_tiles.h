#pragma once

#include <string>
#include <vector>

#include "planner/estimate.h"

namespace warpconv::cuda {

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
