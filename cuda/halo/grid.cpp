#include "cuda/halo/grid.h"

#include <algorithm>

#include "divide.h"

namespace warpconv::cuda::halo {
namespace {

/** What an axis's taps read, `apart` elements from one to the next: of which phase of the stride, and at what place. */
class TapPlace {
 public:
  TapPlace(int64_t stride, int64_t apart) : stride_(stride), phases_(apart % stride), places_(apart / stride) {}

  int64_t phase() const { return phase_; }
  int64_t place() const { return place_; }
  /** To the next tap: without a division, of which planning would do four for each tap of each layout. */
  void advance() {
    phase_ += phases_, place_ += places_;
    if (phase_ >= stride_) phase_ -= stride_, ++place_;
  }

 private:
  int64_t stride_, phases_, places_, phase_ = 0, place_ = 0;
};

/** Whether each of an axis's phases is one that some tap reads. */
bool readsAll(int64_t taps, int64_t stride, int64_t dilation, int64_t phases) {
  uint32_t read = 0;
  TapPlace place(stride, dilation);
  for (int64_t tap = 0; tap < taps; ++tap, place.advance()) read |= uint32_t{1} << place.phase();
  return read + 1 == uint32_t{1} << phases;
}

TapOrder orderTaps(const Grid& grid) {
  const auto partOf = [&](const Tap& tap) { return grid.layout.inParts ? static_cast<size_t>(tap.phase) : 0; };
  // Of each part first how many taps it has, then where its next one comes.
  std::vector<size_t> places(grid.layout.inParts ? static_cast<size_t>(grid.phases()) : 1);
  for (const Tap& tap : grid.taps) ++places[partOf(tap)];
  TapOrder order;
  order.ends.reserve(places.size());
  size_t end = 0;
  for (size_t& place : places) {
    const size_t begin = end;
    end += roundUp(place, size_t{kGroupTaps});
    place = begin;
    order.ends.push_back(static_cast<uint8_t>(end));
  }
  order.taps.assign(end, kNoTap);
  for (size_t tap = 0; tap < grid.taps.size(); ++tap) {
    order.taps[places[partOf(grid.taps[tap])]++] = static_cast<uint8_t>(tap);
  }
  return order;
}

}  // namespace

GridAxis gridAxis(int64_t input, int64_t output, int64_t taps, int64_t stride, int64_t dilation, int64_t padBefore,
                  int64_t fold) {
  int64_t phases = 1;
  TapPlace place(stride, dilation);
  for (int64_t tap = 0; fold == 1 && tap < taps; ++tap, place.advance()) phases = std::max(phases, place.phase() + 1);
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
  TapPlace row(x.stride.h, fold.h * x.dilation.h);
  for (int64_t r = 0; r < x.r; r += fold.h, row.advance()) {
    TapPlace column(x.stride.w, fold.w * x.dilation.w);
    for (int64_t s = 0; s < x.s; s += fold.w, column.advance()) {
      grid.taps.push_back({row.phase() * grid.columns.phases + column.phase(),
                           row.place() * grid.columns.pitch + column.place()});
      grid.reach = std::max(grid.reach, grid.taps.back().shift);
    }
  }
  grid.order = orderTaps(grid);
  return grid;
}

bool canBeInParts(const ConvProblem& x) {
  const GridAxis rows = gridAxis(x.h, x.p, x.r, x.stride.h, x.dilation.h, x.padding.top);
  const GridAxis columns = gridAxis(x.w, x.q, x.s, x.stride.w, x.dilation.w, x.padding.left);
  const int64_t phases = rows.phases * columns.phases;
  return phases > 1 && phases <= kMostParts && readsAll(x.r, x.stride.h, x.dilation.h, rows.phases) &&
         readsAll(x.s, x.stride.w, x.dilation.w, columns.phases);
}

int64_t foldedChannels(const ConvProblem& x, const Grid& grid) {
  return x.groupInputs() * grid.layout.fold.h * grid.layout.fold.w;
}

std::vector<Layout> layoutsOf(const ConvProblem& x) {
  std::vector<Layout> layouts{{}};
  const Extent& stride = x.stride;
  const bool isStrided = stride.h * stride.w > 1, isDilated = x.dilation.h > 1 || x.dilation.w > 1;
  const bool fits = saturatedProduct({x.groupInputs(), stride.h, stride.w}) <= kMostFolded &&
                    stride.h + stride.w <= kMostFoldBits;
  // A chunk of several taps' elements is brought by one, so there must be others.
  const bool hasOthers = x.r > stride.h || x.s > stride.w;
  if (isStrided && !isDilated && fits && hasOthers) layouts.push_back({stride});
  if (canBeInParts(x)) layouts.push_back({{}, true});
  return layouts;
}

}  // namespace warpconv::cuda::halo
