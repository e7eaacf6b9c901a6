#pragma once

#include <cuda_runtime_api.h>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/im2win/gemm_tile.h"
#include "cuda/im2win/window_order.h"
#include "cuda/kernel/fast_divisor.h"

namespace warpconv::cuda::im2win {

/** Everything one launch of the GEMM kernel reads; offsets in elements. */
struct GemmArguments {
  /** The input, or the im2win tensor */
  const float* windows;
  WindowLayout layout;
  /** Of one group, past its end by the tiles whose steps are read and not used */
  const WindowStep* order;
  /** groups x reduction x filterPitch, in the order of `order`; zero beyond the group's filters and the reduction */
  const float* filter;
  int filterPitch;
  int filterGroupStride;

  /** N x K x P x Q; the sums of split i lie splitStride * i further on */
  float* output;
  int64_t splitStride;
  /** A kernel follows that sums the splits */
  bool sumFollows;
  /** Blocks of a cluster, which sum their splits themselves; 1 where a kernel does or there are none */
  int cluster;
  Epilogue epilogue;
  /** Four outputs at a time: P * Q is a multiple of four, and every pointer is 16-byte aligned */
  bool quadOutputs;

  /** For the padding of a window */
  int h, w, strideH, strideW, dilationH, dilationW, padTop, padLeft;

  /** K, and K / groups */
  int outputs, groupOutputs;
  /** N * P * Q, and P * Q */
  int windowCount, mapSize;
  FastDivisor byMap, byRow;

  /**
   * Block b = (((group * splits + split) * tilesN + tileN) * tilesM + tileM) * cluster + rank; either the splits or the
   * cluster's blocks are 1.
   */
  FastDivisor byCluster, byTilesM, byTilesN, bySplits;
  /** Tiles of the reduction: all, and of one split but the last */
  int tiles, tilesPerSplit;
};

/** Launched with the threads and the shared memory of its tile. */
using GemmKernel = void (*)(GemmArguments);

/** The kernel of kTiles[kIndex]. Instances are in instances/. */
template <int kIndex>
GemmKernel gemmKernel();

}  // namespace warpconv::cuda::im2win
