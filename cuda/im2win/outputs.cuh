#pragma once

#include "cuda/epilogue/staged_rows.cuh"
#include "cuda/im2win/places.cuh"
#include "cuda/kernel/partial_barrier.cuh"

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

WARPCONV_HOST_DEVICE constexpr StagedTile stagedSlice(const GemmTile& tile) {
  return {tile.sliceM(), tile.blockN, tile.outputPitch(), tile.partsK, tile.threads()};
}

/** Of a slice, whose columns are windows: see staged_rows.cuh. */
template <GemmTile kTile, bool kClustered>
class SliceOutputs {
 public:
  __device__ SliceOutputs(const GemmArguments& x, const BlockPlace& place, int slice) : x_(x), place_(place) {
    const int firstOutput = place.m0 + slice * kTile.sliceM();
    // None where the slice lies beyond the last output.
    rows_ = max(min(kTile.sliceM(), x.groupOutputs - firstOutput), 0);
    firstChannel_ = place.group * x.groupOutputs + firstOutput;
    output_ = x.output + (kClustered ? 0 : place.split * x.splitStride);
  }

  __device__ const Epilogue& epilogue() const { return x_.epilogue; }
  __device__ float* output() const { return output_; }
  __device__ int rows() const { return rows_; }
  __device__ int firstChannel() const { return firstChannel_; }
  __device__ int channelSize() const { return x_.mapSize; }
  __device__ int offsetOf(int column) const {
    int position = place_.n0 + column;
    const bool exists = isWindow(x_, position);
    const int n = x_.byMap.divide(position);
    return exists ? n * x_.outputs * x_.mapSize + position : kBeyond;
  }

  __device__ int cluster() const { return x_.cluster; }
  __device__ const FastDivisor& byCluster() const { return x_.byCluster; }
  __device__ int rank() const { return place_.split; }

 private:
  const GemmArguments& x_;
  const BlockPlace& place_;
  int rows_, firstChannel_;
  float* output_;
};

/** Of a slice that the threads of each block of the cluster have written to shared memory. */
template <GemmTile kTile>
__device__ void finishSlice(const GemmArguments& x, const BlockPlace& place, float* shared, int slice) {
  const auto finishBy = [&]<bool kAligned>() {
    if (x.cluster == 1) {
      synchroniseThreads<kTile>();
      return finishRows<stagedSlice(kTile), kAligned, false>(SliceOutputs<kTile, false>(x, place, slice), shared);
    }
    synchroniseCluster(x.cluster);
    finishRows<stagedSlice(kTile), kAligned, true>(SliceOutputs<kTile, true>(x, place, slice), shared);
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
