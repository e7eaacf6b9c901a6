#include <algorithm>
#include <cstring>

#include "cpu/algorithm/epilogue.h"
#include "cpu/microkernels/outer_product.h"
#include "cpu/microkernels/portable.h"
#include "cpu/vector/vector4.h"

namespace warpconv {
namespace portable {
namespace {

struct Product4 : Vector4 {
  static Register zero() { return Register{}; }
};

/** One element of each window of a segment. */
void packElement(const ConvProblem& x, const float* map, const WindowSegment& at, int64_t h, int64_t s, float* dst) {
  const int64_t first = at.w + s * x.dilation.w;
  if (h < 0 || h >= x.h) {
    std::fill_n(dst, at.count, 0.0f);
    return;
  }
  const float* row = map + h * x.w;
  const int64_t last = first + (at.count - 1) * x.stride.w;
  if (first >= 0 && last < x.w) {
    if (x.stride.w == 1) {
      std::memcpy(dst, row + first, sizeof(float) * static_cast<size_t>(at.count));
    } else {
      for (int64_t i = 0; i < at.count; ++i) dst[i] = row[first + i * x.stride.w];
    }
    return;
  }
  for (int64_t i = 0; i < at.count; ++i) {
    const int64_t w = first + i * x.stride.w;
    dst[i] = w >= 0 && w < x.w ? row[w] : 0.0f;
  }
}

}  // namespace

void pack(const WindowTile& tile, float* dst) {
  const ConvProblem& x = *tile.problem;
  for (int64_t c = 0; c < tile.channels; ++c) {
    const float* map = tile.maps + c * x.h * x.w;
    for (int64_t r = 0; r < x.r; ++r) {
      for (int64_t s = 0; s < x.s; ++s, dst += kPackedWindows) {
        for (int64_t i = 0; i < tile.segmentCount; ++i) {
          const WindowSegment& at = tile.segments[i];
          packElement(x, map, at, at.h + r * x.dilation.h, s, dst + at.lane);
        }
      }
    }
  }
}

void store(const OutputTile& tile, const float* sums) {
  for (int64_t f = 0; f < tile.filters; ++f) {
    float* row = tile.output + f * tile.rowStride;
    for (int64_t w = 0; w < tile.windows; ++w) {
      const float sum = sums[w * kMostFilters + f];
      row[w] = tile.add ? row[w] + sum : sum;
    }
    if (tile.finish == nullptr) continue;
    const float* residual = tile.finish->residual;
    finishOutputs(row, tile.windows, tile.finish->bias[f],
                  residual == nullptr ? nullptr : residual + f * tile.rowStride, tile.finish->activation);
  }
}

}  // namespace portable

// 16.5e6: 33 GFLOP/s in five ResNet-50 layers on one Zen 5 core.
extern const Microkernel kF32_4x8Portable;
const Microkernel kF32_4x8Portable{"f32_4x8_portable",
                                   Isa::portable,
                                   4,
                                   8,
                                   4,
                                   1,
                                   16.5e6,
                                   kTurnedStoreElements,
                                   portable::pack,
                                   outer::multiply<portable::Product4, 4, 2>,
                                   portable::store,
                                   outer::convolve<portable::Product4, 4, 2, portable::store>};

}  // namespace warpconv
