#pragma once

#include "cuda/image/arguments.h"

namespace warpconv::cuda::image {

/** A tile of outputs: its image, first row and first column. */
struct OwnTile {
  int n, firstP, firstQ;

  __device__ OwnTile(const Arguments& x, int index) {
    int column = index;
    int row = x.byTileColumns.divide(column);
    n = x.byTileRows.divide(row);
    firstP = row * kRows, firstQ = column * kColumns;
  }
};

/**
 * The elements around a tile, in pairs of neighbouring columns, rounded to halves: word i of row j of channel c has
 * columns 2 i and 2 i + 1. Where the stride is odd a second copy has columns 2 i + 1 and 2 i + 2, for windows that
 * begin in odd columns: each window is whole words of one of the two.
 */
template <typename Pair>
class Patch {
 public:
  __device__ Patch(const Arguments& x, uint32_t* words) : x_(x), words_(words) {}

  /** What is outside of the image is zero. By all threads, before a barrier. */
  __device__ void bring(const OwnTile& tile) const {
    const int firstH = tile.firstP * x_.strideH - x_.padTop, firstW = tile.firstQ * x_.strideW - x_.padLeft;
    const float* const image = x_.input + int64_t{tile.n} * x_.c * x_.h * x_.w;
    const int pairs = x_.c * x_.patchRows * x_.patchPairs;
    // Loads of several pairs are under way before the first is needed.
    for (int first = 0; first < pairs; first += kAhead * kThreads) {
      float2 elements[kAhead];
      int places[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * kThreads >= pairs) break;
        int pair = first + i * kThreads + threadIdx.x;
        int row = x_.byPatchPairs.divide(pair);
        places[i] = row * x_.patchPitch + pair;
        const int channel = x_.byPatchRows.divide(row);
        const int h = firstH + row, w = firstW + 2 * pair;
        const bool isRow = channel < x_.c && static_cast<unsigned>(h) < static_cast<unsigned>(x_.h);
        const float* const from = image + (channel * x_.h + h) * x_.w + w;
        elements[i].x = isRow && static_cast<unsigned>(w) < static_cast<unsigned>(x_.w) ? __ldg(from) : 0.0f;
        elements[i].y = isRow && static_cast<unsigned>(w + 1) < static_cast<unsigned>(x_.w) ? __ldg(from + 1) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * kThreads + threadIdx.x < pairs) put(places[i], elements[i]);
      }
    }
  }

  /** Where the window of an output of the tile begins. */
  __device__ const uint32_t* window(int row, int column) const {
    const int first = column * x_.strideW;
    return words_ + row * x_.strideH * x_.patchPitch + first / 2 + (first % 2 != 0 ? x_.patchWords : 0);
  }

 private:
  static constexpr int kAhead = 10;

  __device__ void put(int place, float2 elements) const {
    const uint32_t word = Pair::fromFloats(elements.x, elements.y);
    words_[place] = word;
    if (x_.strideW % 2 == 0) return;
    // The first of a row has nothing before it: its half goes where no window looks.
    auto* const shifted = reinterpret_cast<uint16_t*>(words_ + x_.patchWords + place);
    shifted[-1] = static_cast<uint16_t>(word);
    shifted[0] = static_cast<uint16_t>(word >> 16);
  }

  const Arguments& x_;
  uint32_t* const words_;
};

/** Where pair `index` of a window lies from its beginning. */
__device__ inline WindowPair windowPair(const Arguments& x, int index) {
  int column = index;
  int row = x.byWindowPairs.divide(column);
  const int channel = x.byWindowRows.divide(row);
  // Beyond the window filters are zero, but what else is in the patch may be no number.
  if (channel >= x.c) return {0, 0};
  const auto offset = static_cast<uint32_t>((channel * x.patchRows + row * x.dilationH) * x.patchPitch + column);
  return {offset, 2 * column + 1 < x.s ? 0xffffffffu : 0xffffu};
}

}  // namespace warpconv::cuda::image
