#pragma once

#include "cuda/cluster.cuh"
#include "cuda/im2win/places.cuh"
#include "cuda/partial_barrier.cuh"

namespace warpconv::cuda::im2win {

/** A barrier of the threads that have sums: with warpgroups, others have left. */
template <GemmTile kTile>
__device__ inline void synchroniseThreads() {
  if constexpr (kTile.byWarpgroups()) {
    synchroniseFirst<kTile.threads()>();
  } else {
    __syncthreads();
  }
}

/** The same, which says whether it holds for any of them. */
template <GemmTile kTile>
__device__ inline bool synchroniseAny(bool holds) {
  if constexpr (kTile.byWarpgroups()) {
    return synchroniseFirstAny<kTile.threads()>(holds);
  } else {
    return __syncthreads_or(holds);
  }
}

/**
 * Calls store(sums, row, offsets) for a slice of sums, of the parts and blocks of the cluster that have one: four
 * adjacent windows of a row of the slice, whose offsets in the output are those of channel 0 of the group. Masks both
 * edges. Each block of a cluster has a share of the rows. It reads of kBlocksTogether blocks at a time: with two
 * instead of four, layers in clusters of eight took up to 19 % longer on an H200; with eight, and with bulk copies to
 * each other, which take more shared memory, no less.
 */
template <GemmTile kTile, bool kClustered, int kBlocksTogether>
__device__ void storeRows(const GemmArguments& x, const BlockPlace& place, float* shared, int rows, auto&& store) {
  constexpr int kColumns = kTile.blockN / 4;
  constexpr int kRows = kTile.threads() / kColumns;
  constexpr int kPatch = kTile.sliceM() * kTile.outputPitch();
  const int column = threadIdx.x % kColumns * 4;
  int offsets[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int position = place.n0 + column + i;
    const bool exists = isWindow(x, position);
    const int n = x.byMap.divide(position);
    offsets[i] = exists ? n * x.outputs * x.mapSize + position : kBeyond;
  }
  if (offsets[0] == kBeyond) return;
  const int share = kClustered ? x.byCluster.quotient(rows + x.cluster - 1) : rows;
  const int first = kClustered ? place.split * share : 0, end = min(rows, first + share);
#pragma unroll 1
  for (int row = first + threadIdx.x / kColumns; row < end; row += kRows) {
    float* own = shared + row * kTile.outputPitch() + column;
    AdjacentSums<4> sums{};
#pragma unroll kBlocksTogether
    for (int block = 0; block < (kClustered ? x.cluster : 1); ++block) {
      const float* shares = kClustered ? sharedOf(own, x.cluster, block) : own;
#pragma unroll
      for (int part = 0; part < kTile.partsK; ++part) sums.add(shares + part * kPatch);
    }
    store(sums, row, offsets);
  }
}

/** Finishes and writes a slice of outputs, those of four windows together where kAligned. */
template <GemmTile kTile, bool kAligned, bool kClustered>
__device__ void finishRows(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
  const int firstOutput = place.m0 + slice * kTile.sliceM();
  // None where the slice lies beyond the last output.
  const int rows = max(min(kTile.sliceM(), x.groupOutputs - firstOutput), 0);
  const int firstK = place.group * x.groupOutputs + firstOutput;
  float* const output = x.output + (kClustered ? 0 : place.split * x.splitStride);
  if (isBounded(x.epilogue)) {
    storeRows<kTile, kClustered, 4>(x, place, shared, rows,
                                    [&](AdjacentSums<4>& sums, int row, const int(&offsets)[4]) {
                                      finishBounded(x.epilogue, sums, biasOf(x.epilogue, firstK + row));
                                      const int channel = (firstK + row) * x.mapSize;
                                      if constexpr (kAligned) {
                                        *reinterpret_cast<AdjacentSums<4>*>(output + offsets[0] + channel) = sums;
                                      } else {
                                        storeEach(sums, offsets, channel, output);
                                      }
                                    });
    return;
  }
  // Rarely needed, and kept small for the instruction cache: with four, 64 channels of 224 x 224 by 7 x 7 take 87 us of
  // an H200, and 82 with one.
  storeRows<kTile, kClustered, 1>(x, place, shared, rows, [&](AdjacentSums<4>& sums, int row, const int(&offsets)[4]) {
    const int k = firstK + row, channel = k * x.mapSize;
    if constexpr (kAligned) {
      finish(x.epilogue, sums, k, offsets[0] + channel);
      *reinterpret_cast<AdjacentSums<4>*>(output + offsets[0] + channel) = sums;
    } else {
      finishEach(x.epilogue, sums, k, offsets, channel, output);
    }
  });
}

/** Of a slice that the threads of each block of the cluster have written to shared memory. */
template <GemmTile kTile>
__device__ void finishSlice(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
  const auto finishBy = [&]<bool kAligned>() {
    if (x.cluster == 1) {
      synchroniseThreads<kTile>();
      return finishRows<kTile, kAligned, false>(x, place, shared, slice);
    }
    synchroniseCluster(x.cluster);
    finishRows<kTile, kAligned, true>(x, place, shared, slice);
    // Nobody leaves or writes while another block still reads.
    awaitClusterReads();
  };
  if (x.quadOutputs) {
    finishBy.template operator()<true>();
  } else {
    finishBy.template operator()<false>();
  }
}

}  // namespace warpconv::cuda::im2win
