#pragma once

#include "cuda/planning/model_constants.h"
#include "cuda/pointwise/warpgroup/tile.h"

namespace warpconv::cuda::pointwise {

/** Of warpgroups' products, whose steps are chunks of channels */
struct WarpgroupModel {
  /** Seconds: of a block and its launch, and of a chunk of channels */
  double block, chunk;
  /** Chunks that take as long as two of which the loads are under way together */
  double pair;
  /** How much longer a chunk takes for each further block of a multiprocessor */
  double shared;
  /** Seconds for each byte that a multiprocessor stores, that all blocks read, and that a multiprocessor receives */
  double stored, read, exchanged;
  /** How much longer storing takes where outputs go one by one */
  double unaligned;
};

inline ModelConstants constantsOf(WarpgroupModel& x) {
  return {{"block", &x.block},   {"chunk", &x.chunk}, {"pair", &x.pair},           {"shared", &x.shared},
          {"stored", &x.stored}, {"read", &x.read},   {"exchanged", &x.exchanged}, {"unaligned", &x.unaligned}};
}

/**
 * Fitted to the 103 times of an H100 on the bench's 15 layers at batch 1 and 2 that are near the fastest, and off by 7
 * %. Bytes that a block receives of its cluster count, not all that are sent: by these pw_7_2048_512 was predicted
 * faster in blocks of 64 pixels, which took a fifth longer. `exchanged` is a quarter more than the fit gave, `shared` a
 * fifth less, `pair` 7 % more and `block` 6 % less. A fit to the times that rows/model.h names, without any of that, is
 * off by 10 % instead of 12, but what it chooses for the layers of `networks` takes 0.4 % longer.
 */
constexpr WarpgroupModel WarpgroupTile::defaultModel() {
  return {1.31e-6, 0.6288e-6, 1.8, 0.7, 5.351e-12, 0.08818e-12, 30e-12, 14.16};
}

}  // namespace warpconv::cuda::pointwise
