#pragma once

#include "cuda/planning/model_constants.h"
#include "cuda/pointwise/rows/bf16_tile.h"
#include "cuda/pointwise/rows/fp16_tile.h"
#include "cuda/pointwise/rows/tf32_tile.h"

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
 * Of products of FP16. Fitted to the 512 times near the fastest of every other 1x1 layer of the bench's groups
 * `pointwise`, `wide` and `networks` at batch 1 to 128 on an H100; off by 7 % on those and on the others.
 */
constexpr RowsModel RowsTile::defaultModel() {
  return {1.206e-6, 0.07903e-6, 0.06817e-6, 1.205e-9, 0.4957, 1.204e-12, 0.08423e-12, 0.2618e-12, 1.103};
}

/**
 * Of TF32. Fitted to the 27 times of the same layers that are near the fastest; off by 5 % on those and by 6 % on the
 * others, with 0 for what the fit had next to nothing of.
 */
constexpr RowsModel Tf32RowsTile::defaultModel() {
  return {1.443e-6, 0, 0, 0.9808e-9, 1.866, 0, 0.1164e-12, 0.06783e-12, 1.086};
}

/**
 * Of BF16. Solved for the six times of three tiles on three layers at batch 1 and 2; `block` and `stored` are 5 and 6 %
 * less, for pw_112_16_96, where streams are 2 % slower.
 */
constexpr RowsModel Bf16RowsTile::defaultModel() { return {1.13e-6, 0, 0, 2.65e-9, 0.94, 19.7e-12, 0.118e-12, 0, 1}; }

}  // namespace warpconv::cuda::pointwise
