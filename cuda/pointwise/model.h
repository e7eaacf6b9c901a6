#pragma once

#include "cuda/model_constants.h"

// What predictions of the extension's kernels are made of, as data, for bench/calibrate.ts to fit to measured times.

namespace warpconv::cuda::pointwise {

/** Of one kind of kernels */
struct Model {
  /** Slots of a warp for a multiply-add of every lane, for each copy of a piece, and for each step */
  double multiply, copy, step;
  /** Seconds: of a step that nothing hides, of a block before its first step, and of a thread's storing of an output */
  double stepLatency, blockLatency, storeOutput;
  /** Warps of a multiprocessor whose stores do not slow each other down */
  double storingWarps;
  /** Seconds: of a launch in a graph, and of launching and synchronising clusters */
  double launch, cluster;
  /**
   * The part of the tensors' transfer that nothing hides, as shares of what the device memory's rate would take: of
   * tensors that lie in the L2 cache from one kernel to the next, and of larger ones
   */
  double cached, uncached;
  /** Seconds for each byte that blocks read of filters and pixels, each anew */
  double read = 0;
};

/** Of kernels whose threads hold all channels of their pixels, or a slice of them */
struct StreamModel {
  /** Seconds of a block and its launch, and slots of a warp beside its multiply-adds */
  double block, warp;
  /** Seconds for each byte of slices' sums that a multiprocessor adds up, that is stored, and that all blocks read */
  double joined, stored, read;
};

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

inline ModelConstants constantsOf(Model& x) {
  return {{"multiply", &x.multiply},
          {"copy", &x.copy},
          {"step", &x.step},
          {"stepLatency", &x.stepLatency},
          {"blockLatency", &x.blockLatency},
          {"storeOutput", &x.storeOutput},
          {"storingWarps", &x.storingWarps},
          {"launch", &x.launch},
          {"cluster", &x.cluster},
          {"cached", &x.cached},
          {"uncached", &x.uncached},
          {"read", &x.read}};
}
inline ModelConstants constantsOf(StreamModel& x) {
  return {{"block", &x.block}, {"warp", &x.warp}, {"joined", &x.joined}, {"stored", &x.stored}, {"read", &x.read}};
}
inline ModelConstants constantsOf(WarpgroupModel& x) {
  return {{"block", &x.block},   {"chunk", &x.chunk}, {"pair", &x.pair},           {"shared", &x.shared},
          {"stored", &x.stored}, {"read", &x.read},   {"exchanged", &x.exchanged}, {"unaligned", &x.unaligned}};
}
inline ModelConstants constantsOf(RowsModel& x) {
  return {{"block", &x.block},   {"chunk", &x.chunk},         {"step", &x.step},
          {"filter", &x.filter}, {"shared", &x.shared},       {"stored", &x.stored},
          {"read", &x.read},     {"exchanged", &x.exchanged}, {"unaligned", &x.unaligned}};
}

struct Models {
  /** Ordinary multiply-adds, and tensor cores; and the latter with pixels that go straight into registers */
  Model fma, tensor, streamTensor;
  StreamModel stream;
  WarpgroupModel warpgroup;
  /** By FP16, by TF32 and by BF16 */
  RowsModel rows, tf32Rows, bf16Rows;
};

/**
 * The first two were fitted to all their tiles and splits on the 15 pointwise layers of the bench at batch 1 and 128,
 * 1,416 times of an H200 by graph replay, with weight on the fastest and on choosing right; again, once clusters were
 * joined in less time, to 688 times at batch 1 and to what was predicted of the fastest at batch 128. These kernels
 * store and divide faster since then, which left the choice as it was: with the streaming ones, the candidate of the
 * least predicted time was 1.5 % slower than the fastest on average, a tenth at most.
 *
 * That of warpgroups was fitted to the 103 times of an H100 (bench/results, -bf16-rows-kernels) on the bench's 15
 * layers at batch 1 and 2 that are near the fastest, and is off by 7 %. Bytes that a block receives of its cluster
 * count, not all that are sent: by these pw_7_2048_512 was predicted faster in blocks of 64 pixels, which took a fifth
 * longer. `exchanged` is a quarter more than the fit gave, `shared` a fifth less and `pair` 7 % more, for the same
 * layer and for pw_14_1024_256 of two images.
 *
 * That of rows was fitted to the 271 times of the bench's 15 layers at batch 1 and 2 on an H100 (bench/results,
 * -pointwise-kernels) that are near the fastest, and was off by 5 %; that of streaming on tensor cores, of which rows
 * have taken the place on most layers, to 340 at batch 1 to 16, by 7 instead of 13 %, with `step` 0 as the fit had it
 * and `unaligned` 1 where it had 0.76. `block` of rows is then taken 7 % lower, and `unaligned` 1.2 for 1.14:
 * pw_14_64_384 was predicted above a streaming kernel that takes 9 % longer, pw_7_2048_512 below warpgroups' that take
 * 6 less. `stored` is 20e-12 where the fit had 3.7e-12: of pw_56_64_256, which stores four times what it reads, it was
 * predicted 14 % less than it takes. The 225 times of -bf16-rows-kernels are off by 8 % from that. Since loads follow
 * each other at once, `block` is 1.23e-6 for 1.255e-6, `unaligned` 1.12 for 1.2 and `stored` 22e-12.
 *
 * That of rows by TF32 was fitted to the 50 times of the same layers at batch 1 and 2 on an H100 (bench/results,
 * -tf32-rows-kernels) that are near the fastest, and is off by 6 %, with `unaligned` 1 where the fit had 0.88 and what
 * it had next to nothing of 0. That of rows by BF16 was solved for the six times of three tiles on three layers at
 * batch 1 and 2; `block` and `stored` are 3 and 6 % less, for pw_112_16_96, where streams are 2 % slower. That of
 * kernels whose threads hold all channels was fitted to 13 times of -bf16-rows-kernels, and off by 5 %; slots for a
 * channel's load and for a filter's number that is read did not help.
 *
 * Since outputs take fewer instructions and filters lie in memory more often, `block` of warpgroups is 1.31e-6 where it
 * was 1.4e-6, of rows 1.16e-6 for 1.23e-6, by TF32 1.226e-6 for 1.302e-6 and by BF16 1.13e-6 for 1.16e-6, and
 * `unaligned` by TF32 1.4 for pw_7_320_1280. Of the times of all these kernels (bench/results, 2026-11-26-kernels) what
 * all together choose is 0.2 % slower than the fastest on average at batch 1 and 2, and 2.7 % at most.
 *
 * On 81 problems, those of 12 other layers of networks among them, at batch 1, 4 and 16, and on the bench's at batch
 * 128 all together chose, before these last fits, what was 2.9 % slower than the fastest on average, and within a tenth
 * of it in 89 % of them. All constants fitted together, with weight on choosing right, made that 1.8 %, but 4.5 to 4.9
 * instead of 2.9 where they were fitted to one half of the layers and tried on the other.
 */
inline constexpr Models kModels{
    .fma = {1.27, 13.2, 148, 0.0258e-6, 0.899e-6, 0.0263e-6, 11.4, 0.227e-6, 0.332e-6, 0.376, 0.098},
    .tensor = {0.19, 33.8, 295, 0.0475e-6, 1.4e-6, 0.0287e-6, 26, 0, 0, 0.85, 0.351},
    .streamTensor = {0.8804, 13.5, 0, 0.03445e-6, 0.7417e-6, 7.235e-9, 5.239, 0.6815e-6, 0.3861e-6, 0.2097, 0.618,
                     0.03483e-12},
    .stream = {0.9686e-6, 326.5, 1.083e-12, 0.07935e-12, 0.06413e-12},
    .warpgroup = {1.31e-6, 0.6288e-6, 1.8, 0.7, 5.351e-12, 0.08818e-12, 30e-12, 14.16},
    .rows = {1.16e-6, 0.1006e-6, 0.07687e-6, 1.2e-9, 0.454, 22e-12, 0.072e-12, 0.2853e-12, 1.12},
    .tf32Rows = {1.226e-6, 4.5e-9, 0, 1.26e-9, 0.856, 0, 0.1095e-12, 0.3797e-12, 1.4},
    .bf16Rows = {1.13e-6, 0, 0, 2.65e-9, 0.94, 19.7e-12, 0.118e-12, 0, 1},
};

}  // namespace warpconv::cuda::pointwise
