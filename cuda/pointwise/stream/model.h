#pragma once

#include "cuda/planning/model_constants.h"
#include "cuda/pointwise/gemm_model.h"
#include "cuda/pointwise/stream/tensor_tile.h"
#include "cuda/pointwise/stream/tile.h"

namespace warpconv::cuda::pointwise {

/** Of kernels whose threads hold all channels of their pixels, or a slice of them */
struct StreamModel {
  /** Seconds of a block and its launch, and slots of a warp beside its multiply-adds */
  double block, warp;
  /** Seconds for each byte of slices' sums that a multiprocessor adds up, that is stored, and that all blocks read */
  double joined, stored, read;
};

inline ModelConstants constantsOf(StreamModel& x) {
  return {{"block", &x.block}, {"warp", &x.warp}, {"joined", &x.joined}, {"stored", &x.stored}, {"read", &x.read}};
}

/**
 * Fitted to 13 times of an H100 on the bench's layers at batch 1 and 2, and off by 5 %. Slots for a channel's load and
 * for a filter's number that is read did not help. A fit to the layers that rows/model.h names gives 1.417e-6, 177.3,
 * 0, 0.048e-12 and 0.0511e-12, and what is chosen then takes 0.7 % less on those of `networks`: but convolutions of few
 * numbers go to `rows-bf16` by it, which reads fewer bits of factors below 2^-110.
 */
constexpr StreamModel StreamTile::defaultModel() { return {0.9686e-6, 326.5, 1.083e-12, 0.07935e-12, 0.06413e-12}; }

/**
 * Of streaming on tensor cores: fitted to 340 times of an H100 on the bench's layers at batch 1 to 16, and off by 7 %,
 * with `step` 0 as the fit had it.
 */
constexpr GemmModel StreamTensorTile::defaultModel() {
  return {0.8804, 13.5, 0, 0.03445e-6, 0.7417e-6, 7.235e-9, 5.239, 0.6815e-6, 0.3861e-6, 0.2097, 0.618, 0.03483e-12};
}

}  // namespace warpconv::cuda::pointwise
