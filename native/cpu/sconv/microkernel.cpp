#include "cpu/sconv/microkernel.h"

#include "cpu/sconv/slicing.h"

namespace warpconv::sconv {
namespace {

/** Filters whose sums are kept in registers together: 4 x 8 sums fill half of the 16 vector registers of SSE2. */
constexpr int64_t kRegisterFilters = 4;
static_assert(kTileFilters % kRegisterFilters == 0);

void multiplyStrip(int64_t depth, const float* windows, const float* filters, float* tile) {
  float sums[kRegisterFilters][kTileWindows] = {};
  for (int64_t e = 0; e < depth; ++e, windows += kTileWindows, filters += kTileFilters) {
    for (int64_t f = 0; f < kRegisterFilters; ++f) {
      for (int64_t w = 0; w < kTileWindows; ++w) sums[f][w] += filters[f] * windows[w];
    }
  }
  for (int64_t f = 0; f < kRegisterFilters; ++f) {
    for (int64_t w = 0; w < kTileWindows; ++w) tile[f * kTileWindows + w] = sums[f][w];
  }
}

}  // namespace

void multiplyTile(int64_t depth, const float* windows, const float* filters, float* tile) {
  for (int64_t f = 0; f < kTileFilters; f += kRegisterFilters) {
    multiplyStrip(depth, windows, filters + f, tile + f * kTileWindows);
  }
}

}  // namespace warpconv::sconv
