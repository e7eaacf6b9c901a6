#pragma once

#include <cstdint>

#include "cuda/pointwise/candidate.h"
#include "cuda/pointwise/matrix.h"
#include "cuda/tensor_core/tensor_block.h"

namespace warpconv::cuda::pointwise {

/** A kernel as the prediction sees it. */
struct GemmKernel {
  const GemmModel& model;
  int filters, pixels, channels, threads;
  /** Warps that share an output */
  int slices;
  /** Blocks that a multiprocessor holds */
  int64_t resident;
  /** Multiply-adds of a lane in one step, `channels` of the tile */
  double multiplied;
};

/** @param resident - blocks that a multiprocessor holds */
GemmKernel gemmKernelOf(const GemmModel& model, const TensorBlock& block, int64_t resident);

/** Milliseconds */
double predictGemm(const Matrix& matrix, const Candidate& candidate, const GemmKernel& kernel, const GpuTraits& traits);

}  // namespace warpconv::cuda::pointwise
