#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/stem/arguments.h"

namespace warpconv::cuda::stem {

/** What a block works on: the same output channels for all of its tiles. */
struct Place {
  int group;
  /** Of the group: block of outputs, and its first one */
  int block, m0;
  int firstTile;
};

template <StemTile kTile>
__device__ Place placeOf(const Arguments& x) {
  Place place;
  place.block = static_cast<int>(blockIdx.x);
  place.firstTile = x.byGroupBlocks.divide(place.block);
  place.group = x.byOutputBlocks.divide(place.block);
  place.m0 = place.block * kTile.blockM;
  return place;
}

/** First output of a tile. */
struct TileOrigin {
  int n, p, q;
};

template <StemTile kTile>
__device__ TileOrigin originOf(const Arguments& x, int tile) {
  TileOrigin origin;
  origin.q = tile;
  origin.p = x.byTilesQ.divide(origin.q);
  origin.n = x.byTilesP.divide(origin.p);
  origin.p *= kTile.rows, origin.q *= kWarpColumns;
  return origin;
}

}  // namespace warpconv::cuda::stem
