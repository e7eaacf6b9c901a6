#pragma once

#include "cuda/epilogue/staged_sums.cuh"
#include "cuda/kernel/fast_divisor.h"
#include "host_device.h"

namespace warpconv::cuda {

/** Sums that a block has staged: rows of output channels, of `columns` positions each. */
struct StagedTile {
  int rows, columns;
  /** Floats from one row to the next */
  int pitch;
  /** Of the block, see staged_sums.cuh */
  int parts;
  /** That finish and store outputs: each four adjacent columns of every rowsApart-th row */
  int threads;

  WARPCONV_HOST_DEVICE constexpr int threadsOfRow() const { return columns / 4; }
  WARPCONV_HOST_DEVICE constexpr int rowsApart() const { return threads / threadsOfRow(); }
};

// A family says by functions where its staged rows go, so that a kernel's arguments are read where they are needed and
// take no registers before:
// - epilogue(), output()
// - rows(): those that exist
// - firstChannel(): output channel of row 0
// - channelSize(): outputs of a channel of an image
// - offsetOf(column): in the output of channel 0, or kBeyond
// - cluster(), byCluster(): blocks that share the rows; rank(): which of them this one is

/**
 * Calls store(sums, row, offsets) for four adjacent columns of a row. Without an output for the first of them there is
 * none for the others. A block of a cluster reads of kBlocksTogether blocks at a time: with two instead of four, layers
 * in clusters of eight took up to 19 % longer on an H200; with eight, and with bulk copies to each other, which take
 * more shared memory, no less.
 */
template <StagedTile kTile, bool kClustered, int kBlocksTogether>
__device__ void forEachRow(const auto& x, float* shared, auto&& store) {
  constexpr int kPart = kTile.rows * kTile.pitch;
  constexpr int kColumns = kTile.threadsOfRow(), kRows = kTile.rowsApart();
  const int column = threadIdx.x % kColumns * 4;
  int offsets[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) offsets[i] = x.offsetOf(column + i);
  if (offsets[0] == kBeyond) return;
  const int share = kClustered ? x.byCluster().quotient(x.rows() + x.cluster() - 1) : x.rows();
  const int first = kClustered ? x.rank() * share : 0, end = min(x.rows(), first + share);
#pragma unroll 1
  for (int row = first + threadIdx.x / kColumns; row < end; row += kRows) {
    float* const own = shared + row * kTile.pitch + column;
    AdjacentSums<4> sums{};
#pragma unroll kBlocksTogether
    for (int block = 0; block < (kClustered ? x.cluster() : 1); ++block) {
      addParts<kTile.parts>(sums, kClustered ? sharedOf(own, x.cluster(), block) : own, kPart);
    }
    store(sums, row, offsets);
  }
}

/** Finishes and stores staged rows, four columns together where kAligned. */
template <StagedTile kTile, bool kAligned, bool kClustered>
__device__ void finishRows(const auto& x, float* shared) {
  if (isBounded(x.epilogue())) {
    forEachRow<kTile, kClustered, 4>(x, shared, [&](AdjacentSums<4>& sums, int row, const int(&offsets)[4]) {
      finishBounded(x.epilogue(), sums, biasOf(x.epilogue(), x.firstChannel() + row));
      const int channel = (x.firstChannel() + row) * x.channelSize();
      if constexpr (kAligned) {
        sums.store(x.output() + offsets[0] + channel);
      } else {
        storeEach(sums, offsets, channel, x.output());
      }
    });
    return;
  }
  // Rarely needed, and kept small for the instruction cache: with four, 64 channels of 224 x 224 by 7 x 7 take 87 us of
  // an H200, and 82 with one.
  forEachRow<kTile, kClustered, 1>(x, shared, [&](AdjacentSums<4>& sums, int row, const int(&offsets)[4]) {
    const int k = x.firstChannel() + row, channel = k * x.channelSize();
    if constexpr (kAligned) {
      finish(x.epilogue(), sums, k, offsets[0] + channel);
      sums.store(x.output() + offsets[0] + channel);
    } else {
      finishEach(x.epilogue(), sums, k, offsets, channel, x.output());
    }
  });
}

}  // namespace warpconv::cuda
