#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/tiles.h"

namespace warpconv {

/** One of the kernels that an algorithm chose from. */
struct ConsideredKernel {
  /** The variant that asks for it */
  std::string name;
  /** Empty where there is no such kernel for the problem */
  Tiles tiles;
  /** What decides, by name */
  std::vector<std::pair<std::string, double>> figures;
  /** Why it was not chosen; empty for the one that was */
  std::string lost;
};

/** What an algorithm says of a problem before anything is prepared. */
struct Estimate {
  double milliseconds = 0;
  /** Scratch memory of one running call, in bytes */
  int64_t workspaceBytes = 0;
  Tiles tiles;
  /**
   * For those who want to know why; nothing where an algorithm has one kernel, or chooses by rules. Made when it is
   * asked for: it takes longer than the choice.
   */
  std::function<std::vector<ConsideredKernel>()> considered = {};
};

}  // namespace warpconv
