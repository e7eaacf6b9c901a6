#pragma once

#include "cuda/planning/model_constants.h"

namespace warpconv::cuda::pointwise {

/** Of the same with pixels as rows, whose chunks are steps of 16 channels, or of eight */
struct RowsModel {
  /** Seconds: of a block and its launch, of a chunk, of a step of pixels, and of one filter's products of a step */
  double block, chunk, step, filter;
  /** How much longer these take for each further block of a multiprocessor */
  double shared;
  /** Seconds for each byte that a block stores, that all blocks read, and that those of clusters exchange */
  double stored, read, exchanged;
  /** How much longer steps and storing take where pixels come and go one by one */
  double unaligned;
};

inline ModelConstants constantsOf(RowsModel& x) {
  return {{"block", &x.block},   {"chunk", &x.chunk},         {"step", &x.step},
          {"filter", &x.filter}, {"shared", &x.shared},       {"stored", &x.stored},
          {"read", &x.read},     {"exchanged", &x.exchanged}, {"unaligned", &x.unaligned}};
}

/**
 * Of products of FP16. Fitted to the 271 times of the bench's 15 layers at batch 1 and 2 on an H100 that are near the
 * fastest, and off by 5 %. Bent by hand since: `stored` is 22e-12 for 3.7e-12, as pw_56_64_256, which stores four times
 * what it reads, was predicted 14 % less than it takes; `block` is lower by an eighth in all, and `unaligned` 1.12 for
 * 1.14, as kernels' loads follow each other at once and their outputs take fewer instructions.
 */
inline constexpr RowsModel kRowsModel{1.16e-6, 0.1006e-6, 0.07687e-6, 1.2e-9, 0.454,
                                      22e-12,  0.072e-12, 0.2853e-12, 1.12};

/**
 * Of TF32. Fitted to the 50 times of the same layers that are near the fastest, and off by 6 %, with 0 for what the fit
 * had next to nothing of. Bent by hand since: `block` is 6 % less, and `unaligned` 1.4 for pw_7_320_1280.
 */
inline constexpr RowsModel kTf32RowsModel{1.226e-6, 4.5e-9, 0, 1.26e-9, 0.856, 0, 0.1095e-12, 0.3797e-12, 1.4};

/**
 * Of BF16. Solved for the six times of three tiles on three layers at batch 1 and 2; `block` and `stored` are 5 and 6 %
 * less, for pw_112_16_96, where streams are 2 % slower.
 */
inline constexpr RowsModel kBf16RowsModel{1.13e-6, 0, 0, 2.65e-9, 0.94, 19.7e-12, 0.118e-12, 0, 1};

}  // namespace warpconv::cuda::pointwise
