#include "cpu/sconv/packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/sconv/slicing.h"

namespace warpconv::sconv {
namespace {

/** Where each window of a tile begins in the input, padding included: (p * strideH - top, q * strideW - left). */
struct TileOrigins {
  std::array<int64_t, kTileWindows> h{};
  std::array<int64_t, kTileWindows> w{};
  int64_t count = 0;
  /** Every element of every window lies inside the input. */
  bool interior = true;
  /** The windows begin at adjacent elements of one input row. */
  bool adjacent = true;
};

TileOrigins tileOrigins(const ConvProblem& x, int64_t firstWindow, int64_t count) {
  TileOrigins origins;
  origins.count = count;
  const int64_t reachH = (x.r - 1) * x.dilation.h;
  const int64_t reachW = (x.s - 1) * x.dilation.w;
  int64_t p = firstWindow / x.q;
  int64_t q = firstWindow % x.q;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const int64_t h = p * x.stride.h - x.padding.top;
    const int64_t w = q * x.stride.w - x.padding.left;
    origins.h[i] = h;
    origins.w[i] = w;
    origins.interior = origins.interior && h >= 0 && h + reachH < x.h && w >= 0 && w + reachW < x.w;
    origins.adjacent = origins.adjacent && h == origins.h[0] && w == origins.w[0] + static_cast<int64_t>(i);
    if (++q == x.q) {
      q = 0;
      ++p;
    }
  }
  return origins;
}

void copyAdjacent(const ConvProblem& x, const float* map, const TileOrigins& origins, int64_t h, int64_t w,
                  float* dst) {
  std::memcpy(dst, map + (origins.h[0] + h) * x.w + origins.w[0] + w, sizeof(float) * kTileWindows);
}

void gatherInterior(const ConvProblem& x, const float* map, const TileOrigins& origins, int64_t h, int64_t w,
                    float* dst) {
  for (size_t i = 0; i < static_cast<size_t>(origins.count); ++i) {
    dst[i] = map[(origins.h[i] + h) * x.w + origins.w[i] + w];
  }
}

void gatherChecked(const ConvProblem& x, const float* map, const TileOrigins& origins, int64_t h, int64_t w,
                   float* dst) {
  for (size_t i = 0; i < static_cast<size_t>(origins.count); ++i) {
    const int64_t row = origins.h[i] + h;
    const int64_t column = origins.w[i] + w;
    const bool inside = row >= 0 && row < x.h && column >= 0 && column < x.w;
    dst[i] = inside ? map[row * x.w + column] : 0.0f;
  }
}

}  // namespace

void packWindows(const ConvProblem& problem, const float* maps, int64_t channels, int64_t firstWindow, int64_t count,
                 float* dst) {
  const TileOrigins origins = tileOrigins(problem, firstWindow, count);
  const bool whole = count == kTileWindows;
  const auto copy = !origins.interior ? gatherChecked : (whole && origins.adjacent ? copyAdjacent : gatherInterior);
  for (int64_t c = 0; c < channels; ++c) {
    const float* map = maps + c * problem.h * problem.w;
    for (int64_t r = 0; r < problem.r; ++r) {
      for (int64_t s = 0; s < problem.s; ++s, dst += kTileWindows) {
        copy(problem, map, origins, r * problem.dilation.h, s * problem.dilation.w, dst);
        if (!whole) std::fill(dst + count, dst + kTileWindows, 0.0f);
      }
    }
  }
}

void packFilters(const ConvProblem& problem, const float* filters, int64_t channels, int64_t count, float* dst) {
  const int64_t elements = channels * problem.r * problem.s;
  for (int64_t e = 0; e < elements; ++e, dst += kTileFilters) {
    for (int64_t f = 0; f < count; ++f) dst[f] = filters[f * problem.filterSize() + e];
    std::fill(dst + count, dst + kTileFilters, 0.0f);
  }
}

}  // namespace warpconv::sconv
