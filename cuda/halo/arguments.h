#pragma once

#include <cuda_runtime_api.h>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/halo/grid.h"
#include "cuda/halo/tile.h"
#include "cuda/kernel/fast_divisor.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda::halo {

/**
 * Where a position's channel lies from the position's first element, and the bits of Element::outside with which it is
 * padding.
 */
struct FoldedChannel {
  int offset;
  uint32_t bits;
};

/** Set for every position, and in every channel past the last: what is read there is zero. */
inline constexpr uint32_t kPastTheLast = uint32_t{1} << kMostFoldBits;

/** Everything one launch reads; offsets in elements. */
struct Arguments {
  Shape shape;
  const float* input;
  /**
   * Split filters, each output channel's by a scale of its own, as products take them from shared memory: [group][block
   * of kWarpgroupM outputs][chunk][ordered tap][high, low][eight channels][output][4] words of two channels, with zeros
   * beyond the group's filters and channels, and for what is no tap
   */
  const uint32_t* filter;
  /** Of the filters' scales: [group][block of outputs][kWarpgroupM] */
  const float* filterInverses;
  float* output;
  Epilogue epilogue;

  /** Of the grid: all, and those of a block's patch in one phase */
  int positions, patch;
  /** Phases that are brought together: all, or one; and how many times a chunk's are */
  int phases, parts;
  FastDivisor byImage, byRow, byPatch, byColumnPhases;
  /** Of TapOrder::taps: where they begin in a part, phase * patch + shift; and which they are */
  uint16_t taps[kMostOrderedTaps];
  uint8_t tapIndex[kMostOrderedTaps];
  /** Where each part's end, and how many groups of kGroupTaps there are */
  uint8_t partEnds[kMostParts];
  int groups;

  /** Of a position: those of a group, or foldRows * foldColumns times as many, [channel][row][column], in `folded` */
  int channels;
  int foldRows, foldColumns;
  FoldedChannel folded[kMostFolded];
  /** Chunks of channels: all, and of one block of a cluster but the last */
  int chunks, chunksPerBlock;
  int stages, slots;
  /** Of blocks of kWarpgroupM outputs in a group, padded to the tile */
  int outputBlocks;
  /** Block b = ((group * tilesN + tileN) * tilesM + tileM) * cluster + rank */
  int cluster;
  FastDivisor byCluster, byTilesM, byTilesN;
};

using Kernel = void (*)(Arguments);

/** Of Arguments::folded, from its shape and fold. */
inline FoldedChannel foldedChannel(const Arguments& x, int channel) {
  if (channel >= x.channels) return {0, kPastTheLast};
  const int column = channel % x.foldColumns, row = channel / x.foldColumns % x.foldRows;
  const int map = channel / (x.foldColumns * x.foldRows);
  return {(map * x.shape.h + row) * x.shape.w + column, uint32_t{1} << row | uint32_t{1} << (x.foldRows + column)};
}

/** K x C/groups x R x S filters as Arguments::filter and Arguments::filterInverses want them. */
void launchFilterOrder(const Arguments& arguments, const float* filter, uint32_t* ordered, float* inverses,
                       cudaStream_t stream);

/** What a kernel may be made for alone, so that it has no instructions for what else there may be: see pointwise's. */
struct Given {
  /** Positions have one element of a channel, and outputs are what isBounded says, as in most problems */
  bool plain;
  /** Of a cluster */
  int blocks;
};

/** Of kTiles[tile]; launched with its threads and the plan's shared memory. */
Kernel kernelOf(int tile, const Given& given);

}  // namespace warpconv::cuda::halo
