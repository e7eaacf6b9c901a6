#include "cuda/halo/grid.h"

#include <algorithm>

#include "divide.h"

namespace warpconv::cuda::halo {
namespace {

TapOrder orderTaps(const Grid& grid) {
  TapOrder order;
  order.taps.reserve(kMostOrderedTaps);
  const int64_t parts = grid.layout.inParts ? grid.phases() : 1;
  for (int64_t part = 0; part < parts; ++part) {
    for (size_t tap = 0; tap < grid.taps.size(); ++tap) {
      if (parts == 1 || grid.taps[tap].phase == part) order.taps.push_back(static_cast<uint8_t>(tap));
    }
    while (order.taps.size() % kGroupTaps != 0) order.taps.push_back(kNoTap);
    order.ends.push_back(static_cast<uint8_t>(order.taps.size()));
  }
  return order;
}

}  // namespace

GridAxis gridAxis(int64_t input, int64_t output, int64_t taps, int64_t stride, int64_t dilation, int64_t padBefore,
                  int64_t fold) {
  int64_t phases = 1;
  for (int64_t tap = 0; fold == 1 && tap < taps; ++tap) phases = std::max(phases, tap * dilation % stride + 1);
  const int64_t covered = std::max(fold, stride);
  const int64_t reach = fold == 1 ? (taps - 1) * dilation / stride : (ceilDivide(taps, fold) - 1) * fold / stride;
  const int64_t read = output + reach;
  const int64_t filled = ceilDivide(input + padBefore, stride);
  const int64_t zerosBehind = std::max<int64_t>(read - filled, 0);
  const int64_t zerosBefore = padBefore >= covered ? (padBefore - covered) / stride + 1 : 0;
  const int64_t pitch = std::max(output, read - std::min(zerosBehind, zerosBefore));
  return {phases, pitch};
}

Grid makeGrid(const ConvProblem& x, const Layout& layout) {
  Grid grid;
  grid.layout = layout;
  const Extent& fold = layout.fold;
  grid.rows = gridAxis(x.h, x.p, x.r, x.stride.h, x.dilation.h, x.padding.top, fold.h);
  grid.columns = gridAxis(x.w, x.q, x.s, x.stride.w, x.dilation.w, x.padding.left, fold.w);
  grid.positions = x.n * grid.rows.pitch * grid.columns.pitch;
  grid.outputPositions = ((x.n - 1) * grid.rows.pitch + x.p - 1) * grid.columns.pitch + x.q;
  grid.taps.reserve(static_cast<size_t>(x.r * x.s));
  for (int64_t r = 0; r < x.r; r += fold.h) {
    const int64_t h = r * x.dilation.h;
    for (int64_t s = 0; s < x.s; s += fold.w) {
      const int64_t w = s * x.dilation.w;
      const int64_t phase = h % x.stride.h * grid.columns.phases + w % x.stride.w;
      grid.taps.push_back({phase, h / x.stride.h * grid.columns.pitch + w / x.stride.w});
      grid.reach = std::max(grid.reach, grid.taps.back().shift);
    }
  }
  grid.order = orderTaps(grid);
  return grid;
}

bool canBeInParts(const ConvProblem& x) {
  const Grid grid = makeGrid(x);
  if (grid.phases() == 1 || grid.phases() > kMostParts) return false;
  uint32_t read = 0;
  for (const Tap& tap : grid.taps) read |= uint32_t{1} << tap.phase;
  return read + 1 == uint32_t{1} << grid.phases();
}

int64_t foldedChannels(const ConvProblem& x, const Grid& grid) {
  return x.groupInputs() * grid.layout.fold.h * grid.layout.fold.w;
}

std::vector<Layout> layoutsOf(const ConvProblem& x) {
  std::vector<Layout> layouts{{}};
  const Extent& stride = x.stride;
  const bool isStrided = stride.h * stride.w > 1, isDilated = x.dilation.h > 1 || x.dilation.w > 1;
  const bool fits = x.groupInputs() * stride.h * stride.w <= kMostFolded && stride.h + stride.w <= kMostFoldBits;
  // A chunk of several taps' elements is brought by one, so there must be others.
  const bool hasOthers = x.r > stride.h || x.s > stride.w;
  if (isStrided && !isDilated && fits && hasOthers) layouts.push_back({stride});
  if (canBeInParts(x)) layouts.push_back({{}, true});
  return layouts;
}

}  // namespace warpconv::cuda::halo
