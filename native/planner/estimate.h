#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace warpconv {

/** What an algorithm says of a problem before anything is prepared. */
struct Estimate {
  double milliseconds = 0;
  /** Scratch memory of one running call, in bytes */
  int64_t workspaceBytes = 0;
  /** Tile extents by the names of the algorithm's source */
  std::vector<std::pair<std::string, int64_t>> tiles;
};

}  // namespace warpconv
