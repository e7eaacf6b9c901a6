#pragma once

#include "cuda/cluster_sums.cuh"
#include "cuda/im2win/places.cuh"

namespace warpconv::cuda::im2win {

/** A barrier of the threads that have sums: with warpgroups, others have left. */
template <GemmTile kTile>
__device__ inline void synchroniseThreads() {
  if constexpr (kTile.byWarpgroups()) {
    asm volatile("barrier.cta.sync.aligned 1, %0;" ::"n"(kTile.threads()) : "memory");
  } else {
    __syncthreads();
  }
}

/** The same, which says whether it holds for any of them. */
template <GemmTile kTile>
__device__ inline bool synchroniseAny(bool holds) {
  if constexpr (kTile.byWarpgroups()) {
    int any;
    asm volatile(
        "{ .reg .pred holds, any; setp.ne.b32 holds, %1, 0; barrier.cta.red.or.pred.aligned any, 1, %2, holds; "
        "selp.b32 %0, 1, 0, any; }"
        : "=r"(any)
        : "r"(static_cast<int>(holds)), "n"(kTile.threads())
        : "memory");
    return any != 0;
  } else {
    return __syncthreads_or(holds);
  }
}

/** What brings a tile's slices together. */
template <GemmTile kTile>
using SliceSums = ClusterSums<kTile.sliceM(), kTile.outputPitch(), kTile.partsK>;

/** Writes rows of a slice of sums, kWidth adjacent windows at a time; masks both edges. */
template <GemmTile kTile, int kWidth>
__device__ void finishRows(const GemmArguments& x, const BlockPlace& place, const StagedRows& staged, int slice) {
  constexpr int kColumns = kTile.blockN / kWidth;
  constexpr int kRows = kTile.threads() / kColumns;
  const int column = threadIdx.x % kColumns * kWidth;
  int position = place.n0 + column;
  if (!isWindow(x, position)) return;
  const int n = x.byMap.divide(position);
  const int firstOutput = place.m0 + slice * kTile.sliceM();
  const int end = min(staged.end, x.groupOutputs - firstOutput);
  // The splits of a cluster make one output; others have one each.
  float* output = x.output + (x.cluster > 1 ? 0 : place.split * x.splitStride);
#pragma unroll 1
  for (int row = staged.first + threadIdx.x / kColumns; row < end; row += kRows) {
    const int k = place.group * x.groupOutputs + firstOutput + row;
    const int index = (n * x.outputs + k) * x.mapSize + position;
    Sums<kWidth> sum = staged.sumAt<kWidth>(row, column);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum.x[i] = finish(x.epilogue, sum.x[i], k, index + i);
    *reinterpret_cast<Sums<kWidth>*>(output + index) = sum;
  }
}

/** Of a slice that this block has in shared memory since the last barrier, the slice-th. */
template <GemmTile kTile>
__device__ void finishSlice(const GemmArguments& x, const BlockPlace& place, SliceSums<kTile>& sums,
                            const float* shared, int slice) {
  const StagedRows staged = sums.gather(shared, slice % 2);
  if (x.quadOutputs) {
    finishRows<kTile, 4>(x, place, staged, slice);
  } else {
    finishRows<kTile, 1>(x, place, staged, slice);
  }
  sums.release();
}

}  // namespace warpconv::cuda::im2win
