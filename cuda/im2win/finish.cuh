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
 * Writes a slice of sums, of the parts and blocks of the cluster that have one, kWidth adjacent windows at a time;
 * masks both edges. Blocks of a cluster take turns with the rows. They read of one block after the other: with all
 * loads under way together a kernel of 10 us took 1 to 4 us longer on an H200, and bulk copies to each other, which
 * take more shared memory, were no faster.
 */
template <GemmTile kTile, int kWidth, bool kClustered>
__device__ void finishRows(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
  constexpr int kColumns = kTile.blockN / kWidth;
  constexpr int kRows = kTile.threads() / kColumns;
  constexpr int kPatch = kTile.sliceM() * kTile.outputPitch();
  const int column = threadIdx.x % kColumns * kWidth;
  int position = place.n0 + column;
  if (!isWindow(x, position)) return;
  const int n = x.byMap.divide(position);
  const int firstOutput = place.m0 + slice * kTile.sliceM();
  const int end = min(kTile.sliceM(), x.groupOutputs - firstOutput);
  const int first = threadIdx.x / kColumns + (kClustered ? place.split * kRows : 0);
  const int apart = kClustered ? kRows * x.cluster : kRows;
  float* output = x.output + (kClustered ? 0 : place.split * x.splitStride);
#pragma unroll 1
  for (int row = first; row < end; row += apart) {
    const int k = place.group * x.groupOutputs + firstOutput + row;
    const int index = (n * x.outputs + k) * x.mapSize + position;
    float* own = shared + row * kTile.outputPitch() + column;
    AdjacentSums<kWidth> sum{};
    for (int block = 0; block < (kClustered ? x.cluster : 1); ++block) {
      const float* sums = kClustered ? sharedOf(own, x.cluster, block) : own;
#pragma unroll
      for (int part = 0; part < kTile.partsK; ++part) sum.add(sums + part * kPatch);
    }
    finish(x.epilogue, sum, k, index);
    *reinterpret_cast<AdjacentSums<kWidth>*>(output + index) = sum;
  }
}

/** Of a slice that the threads of each block of the cluster have written to shared memory. */
template <GemmTile kTile>
__device__ void finishSlice(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
  const auto finishBy = [&]<int kWidth>() {
    if (x.cluster == 1) {
      synchroniseThreads<kTile>();
      return finishRows<kTile, kWidth, false>(x, place, shared, slice);
    }
    synchroniseCluster(x.cluster);
    finishRows<kTile, kWidth, true>(x, place, shared, slice);
    // Nobody leaves or writes while another block still reads.
    awaitClusterReads();
  };
  if (x.quadOutputs) {
    finishBy.template operator()<4>();
  } else {
    finishBy.template operator()<1>();
  }
}

}  // namespace warpconv::cuda::im2win
