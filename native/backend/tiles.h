#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace warpconv {

/** Tile extents by the names of the algorithm's source */
using Tiles = std::vector<std::pair<std::string, int64_t>>;

}  // namespace warpconv
