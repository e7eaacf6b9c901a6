#include "cpu/winograd/tiling.h"

#include <algorithm>

#include "cpu/algorithm/range.h"
#include "divide.h"

namespace warpconv::winograd {

TileGroup Tiling::group(int64_t index) const {
  const Range range = slice(tiles, index, groups);
  TileGroup group{};
  group.tiles = range.size();
  for (int64_t tile = range.begin; tile < range.end;) {
    const int64_t row = tile / columns;
    const int64_t column = tile % columns;
    const int64_t count = std::min(columns - column, range.end - tile);
    group.runs[group.runCount++] = {tile - range.begin, count, row, column};
    tile += count;
  }
  return group;
}

Tiling cutTiles(const ConvProblem& problem, int64_t mostWindows, const CpuCaches& caches) {
  // The rest of the L2 cache is for filters and sums. On one Zen 4 core (L2 1 MB) sets of 1 to 8 groups differ by 2 %,
  // and all 896 at once, from 64 to 64 channels of 224 x 224, take 5 % longer.
  constexpr int64_t kShare = 4;
  // Of machines that do not tell
  constexpr int64_t kAssumedL2 = 512 * 1024;
  Tiling tiling{};
  tiling.columns = ceilDivide(problem.q, 2);
  tiling.tiles = ceilDivide(problem.p, 2) * tiling.columns;
  tiling.groups = ceilDivide(tiling.tiles, mostWindows);
  const int64_t room = (caches.l2 > 0 ? caches.l2 : kAssumedL2) / kShare;
  const int64_t groupBytes = groupFloats(problem) * static_cast<int64_t>(sizeof(float));
  tiling.groupsAtOnce = std::clamp<int64_t>(room / groupBytes, 1, tiling.groups);
  return tiling;
}

}  // namespace warpconv::winograd
