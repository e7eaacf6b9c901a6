#pragma once

#include "cuda/planning/model_constants.h"
#include "cuda/pointwise/gemm_model.h"

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
 * Fitted to the 18 times near the fastest of the layers that rows/model.h names; off by 9 % on those and by 13 % on the
 * others, with 0 for what the fit had next to nothing of.
 */
inline constexpr StreamModel kStreamModel{1.417e-6, 177.3, 0, 0.04794e-12, 0.05109e-12};

/**
 * Of streaming on tensor cores: fitted to 340 times of an H100 on the bench's layers at batch 1 to 16, and off by 7 %,
 * with `step` 0 as the fit had it.
 */
inline constexpr GemmModel kStreamTensorModel{0.8804, 13.5,      0,         0.03445e-6, 0.7417e-6, 7.235e-9,
                                              5.239,  0.6815e-6, 0.3861e-6, 0.2097,     0.618,     0.03483e-12};

}  // namespace warpconv::cuda::pointwise
