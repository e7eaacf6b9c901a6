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
 * Writes a slice of sums, of the parts and blocks of the cluster that have one, four adjacent windows at a time, whose
 * outputs may be stored together where kTogether; masks both edges. Each block of a cluster has a share of the rows. It
 * reads of one block after the other: with eight loads under way together kernels were no faster on an H200, and with
 * bulk copies to each other, which take more shared memory, neither.
 */
template <GemmTile kTile, bool kTogether, bool kClustered>
__device__ void finishRows(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
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
  const int firstOutput = place.m0 + slice * kTile.sliceM();
  // None where the slice lies beyond the last output.
  const int rows = max(min(kTile.sliceM(), x.groupOutputs - firstOutput), 0);
  const int share = kClustered ? x.byCluster.quotient(rows + x.cluster - 1) : rows;
  const int first = kClustered ? place.split * share : 0, end = min(rows, first + share);
  float* output = x.output + (kClustered ? 0 : place.split * x.splitStride);
#pragma unroll 1
  for (int row = first + threadIdx.x / kColumns; row < end; row += kRows) {
    float* own = shared + row * kTile.outputPitch() + column;
    AdjacentSums<4> sums{};
    for (int block = 0; block < (kClustered ? x.cluster : 1); ++block) {
      const float* shares = kClustered ? sharedOf(own, x.cluster, block) : own;
#pragma unroll
      for (int part = 0; part < kTile.partsK; ++part) sums.add(shares + part * kPatch);
    }
    const int k = place.group * x.groupOutputs + firstOutput + row;
    if constexpr (kTogether) {
      finish(x.epilogue, sums, k, offsets[0] + k * x.mapSize);
      *reinterpret_cast<AdjacentSums<4>*>(output + offsets[0] + k * x.mapSize) = sums;
    } else {
      finishEach(x.epilogue, sums, k, offsets, k * x.mapSize, output);
    }
  }
}

/** Of a slice that the threads of each block of the cluster have written to shared memory. */
template <GemmTile kTile>
__device__ void finishSlice(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
  const auto finishBy = [&]<bool kTogether>() {
    if (x.cluster == 1) {
      synchroniseThreads<kTile>();
      return finishRows<kTile, kTogether, false>(x, place, shared, slice);
    }
    synchroniseCluster(x.cluster);
    finishRows<kTile, kTogether, true>(x, place, shared, slice);
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
