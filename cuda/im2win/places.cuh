#pragma once

#include "cuda/im2win/gemm.h"

namespace warpconv::cuda::im2win {

/** Where a block's share of the GEMM begins. */
struct BlockPlace {
  int group, split;
  /** First output channel within the group, first window */
  int m0, n0;
};

template <GemmTile kTile>
__device__ BlockPlace placeOf(const GemmArguments& x, int block) {
  BlockPlace place;
  int rank = block;
  place.m0 = x.byCluster.divide(rank);
  place.n0 = x.byTilesM.divide(place.m0);
  place.split = x.byTilesN.divide(place.n0);
  place.group = x.bySplits.divide(place.split);
  place.split += rank;
  place.m0 *= kTile.blockM, place.n0 *= kTile.blockN;
  return place;
}

/** A tile's last windows may lie beyond the last one, and beyond the largest integer. */
__device__ inline bool isWindow(const GemmArguments& x, int index) {
  return static_cast<uint32_t>(index) < static_cast<uint32_t>(x.windowCount);
}

/** Bits of the filter's rows and columns that lie in the padding for the window at row p and column q. */
__device__ inline uint32_t paddingBits(const GemmArguments& x, int p, int q) {
  uint32_t bits = kPastTheEnd;
  int h = p * x.strideH - x.padTop;
  for (int r = 0; r < x.layout.maskedRows; ++r, h += x.dilationH) {
    bits |= static_cast<uint32_t>(static_cast<uint32_t>(h) >= static_cast<uint32_t>(x.h)) << r;
  }
  int w = q * x.strideW - x.padLeft;
  for (int s = 0; s < x.layout.maskedColumns; ++s, w += x.dilationW) {
    bits |= static_cast<uint32_t>(static_cast<uint32_t>(w) >= static_cast<uint32_t>(x.w)) << (x.layout.maskedRows + s);
  }
  return bits;
}

/** Where a window's elements are: at first + step.offset, but for the steps that have one of the bits of `outside`. */
struct Window {
  const float* first;
  uint32_t outside;
};

/** Of the group's window `index`, which may lie past the last: that one has no elements. */
__device__ inline Window windowAt(const GemmArguments& x, int group, int index) {
  const bool exists = isWindow(x, index);
  int q = index;
  const int n = x.byMap.divide(q);
  const int p = x.byRow.divide(q);
  const int first = x.layout.origin + group * x.layout.groupStride + n * x.layout.imageStride + p * x.layout.rowStride +
                    q * x.layout.columnStride;
  return {x.windows + first, exists ? paddingBits(x, p, q) : ~uint32_t{0}};
}

}  // namespace warpconv::cuda::im2win
