#pragma once

#include <string_view>

#include "host_device.h"
#include "cuda/tensor_core/tensor_block.h"

namespace warpconv::cuda::im2win {

/**
 * What multiplies: float32 multiply-adds, or tensor cores with three products of split operands (tensor_core.cuh), warp
 * by warp or by warpgroups (warpgroup.cuh).
 */
enum class Arithmetic { fma, tf32x3, warpgroups };

/**
 * What one block computes and how: M counts output channels, N windows, K the reduction. A thread owns
 * threadM x threadN outputs, in pieces of up to 4 x 4. Of a warp's threads, 4 x 8 lie beside each other with FMAs, and
 * 8 x 4 with tensor cores; with warpgroups (warpgroup_sums.cuh) a thread has 2 x threadN.
 */
struct GemmTile {
  int blockM, blockN, blockK;
  int threadM, threadN;
  /** Tiles of shared memory; the others fill while one is computed with. One: load, wait, compute, with no prefetch */
  int stages;
  /** 16-byte loads of shared memory */
  bool vectorised;
  /** That registers are to leave room for */
  int blocksPerMultiprocessor;
  Arithmetic arithmetic = Arithmetic::fma;
  /** Warps that have the same outputs, and each a part of a tile's reduction */
  int partsK = 1;
  /** With warpgroups: those that load a tile, besides; and how many such sets of them take turns with the tiles */
  int loaderWarpgroups = 0, loaderTurns = 1;

  WARPCONV_HOST_DEVICE constexpr bool onTensorCores() const { return arithmetic != Arithmetic::fma; }
  WARPCONV_HOST_DEVICE constexpr bool byWarpgroups() const { return arithmetic == Arithmetic::warpgroups; }
  WARPCONV_HOST_DEVICE constexpr int threads() const { return blockM / threadM * (blockN / threadN) * partsK; }
  /** Threads that load a tile, all that load, and all of a block */
  WARPCONV_HOST_DEVICE constexpr int loaders() const { return 128 * loaderWarpgroups; }
  WARPCONV_HOST_DEVICE constexpr int allLoaders() const { return loaders() * loaderTurns; }
  WARPCONV_HOST_DEVICE constexpr int launchThreads() const { return threads() + allLoaders(); }
  /**
   * Registers of a thread: that a block begins with, of those that load, and of those that have sums. Those that load
   * hold their windows of a tile and an address and more for each four filter elements; with 8 fewer some tiles spill.
   */
  WARPCONV_HOST_DEVICE constexpr int launchRegisters() const {
    const int even = 65536 / (blocksPerMultiprocessor * launchThreads()) / 8 * 8;
    return even < 248 ? even : 248;
  }
  WARPCONV_HOST_DEVICE constexpr int loaderRegisters() const {
    const int filterQuads = blockK * blockM / 4 / loaders();
    const int wanted = (blockK * blockN / loaders() + 3 * filterQuads + 43) / 8 * 8;
    return wanted < launchRegisters() ? wanted : launchRegisters();
  }
  WARPCONV_HOST_DEVICE constexpr int sumRegisters() const {
    const int rest = (launchRegisters() * launchThreads() - loaderRegisters() * allLoaders()) / threads() / 8 * 8;
    return rest < 240 ? rest : 240;
  }
  /** With tensor cores */
  WARPCONV_HOST_DEVICE constexpr TensorBlock tensorBlock() const {
    return {blockM, blockN, blockK, threadM, threadN, partsK};
  }
  /** Adjacent outputs of a thread, in each dimension, with FMAs */
  WARPCONV_HOST_DEVICE constexpr int pieceM() const { return threadM % 4 == 0 ? 4 : 1; }
  WARPCONV_HOST_DEVICE constexpr int pieceN() const { return threadN % 4 == 0 ? 4 : 1; }
  /** Floats from one step of a stage to the next */
  WARPCONV_HOST_DEVICE constexpr int pitchM() const { return onTensorCores() ? tensorBlock().pitchM() : blockM; }
  WARPCONV_HOST_DEVICE constexpr int pitchN() const { return onTensorCores() ? tensorBlock().pitchN() : blockN; }
  WARPCONV_HOST_DEVICE constexpr int stageFloats() const {
    return blockK * (pitchM() + (byWarpgroups() ? 2 * blockN : pitchN()));
  }
  /** Sums leave through shared memory in slices of so many output channels, each with all of its parts */
  WARPCONV_HOST_DEVICE constexpr int sliceM() const { return onTensorCores() ? blockM : blockM / (threadM / pieceM()); }
  /** Of a row of such a slice: with warpgroups, rows begin 8 banks apart, which keeps stores from conflicts. */
  WARPCONV_HOST_DEVICE constexpr int outputPitch() const { return byWarpgroups() ? blockN + 8 : blockN; }
  WARPCONV_HOST_DEVICE constexpr int sharedFloats() const {
    const int all = stages * stageFloats();
    const int slice = sliceM() * outputPitch() * partsK;
    return all > slice ? all : slice;
  }
};

struct NamedTile {
  /** Of the variant that pins it */
  std::string_view variant;
  GemmTile tile;
};

/**
 * The paper's tile, then itself with one technique left out (Figure 4; with one output a thread the tile has to be
 * smaller), then those that the planner chooses from. Of twenty tiles timed on an H200 over the named layers at batch
 * 1 and 128, these were best or within 5 % of it somewhere; 128 x 128, with 8 x 8 or 16 x 8 outputs a thread, nowhere.
 * Then those on tensor cores, of sixteen likewise; their names end with the warps that share a tile's reduction. Then
 * those with warpgroups, of twenty.
 */
inline constexpr NamedTile kTiles[] = {
    {"explicit", {128, 128, 8, 8, 8, 2, true, 2}},
    {"explicit-no-prefetch", {128, 128, 8, 8, 8, 1, true, 2}},
    {"explicit-no-vector", {128, 128, 8, 8, 8, 2, false, 2}},
    {"explicit-no-microkernel", {16, 16, 16, 1, 1, 2, true, 4}},
    {"implicit-128x64", {128, 64, 16, 8, 8, 3, true, 3}},
    {"implicit-96x128", {96, 128, 8, 12, 8, 4, true, 3}},
    {"implicit-128x32", {128, 32, 16, 8, 4, 3, true, 4}},
    {"implicit-64x64", {64, 64, 16, 8, 8, 3, true, 6}},
    {"implicit-64x32", {64, 32, 32, 4, 4, 3, true, 4}},
    {"implicit-32x64", {32, 64, 16, 4, 8, 3, true, 6}},
    {"implicit-32x32", {32, 32, 16, 4, 4, 4, true, 8}},
    {"implicit-16x64", {16, 64, 16, 4, 4, 4, true, 8}},
    {"implicit-tf32x3-128x64", {128, 64, 16, 8, 8, 4, true, 2, Arithmetic::tf32x3}},
    {"implicit-tf32x3-64x128", {64, 128, 16, 8, 8, 4, true, 2, Arithmetic::tf32x3}},
    {"implicit-tf32x3-64x64", {64, 64, 16, 4, 8, 4, true, 3, Arithmetic::tf32x3}},
    {"implicit-tf32x3-64x64x2", {64, 64, 32, 4, 8, 4, true, 1, Arithmetic::tf32x3, 2}},
    {"implicit-tf32x3-64x32x2", {64, 32, 32, 4, 8, 4, true, 3, Arithmetic::tf32x3, 2}},
    {"implicit-tf32x3-64x32x8", {64, 32, 64, 4, 8, 3, true, 1, Arithmetic::tf32x3, 8}},
    {"implicit-tf32x3-32x64x2", {32, 64, 32, 4, 8, 4, true, 3, Arithmetic::tf32x3, 2}},
    {"implicit-tf32x3-32x32x4", {32, 32, 32, 4, 8, 4, true, 4, Arithmetic::tf32x3, 4}},
    {"implicit-tf32x3-32x32x8", {32, 32, 64, 4, 8, 3, true, 2, Arithmetic::tf32x3, 8}},
    {"implicit-wgmma-128x128", {128, 128, 32, 2, 32, 4, true, 1, Arithmetic::warpgroups, 1, 2}},
    {"implicit-wgmma-64x256", {64, 256, 32, 2, 32, 2, true, 1, Arithmetic::warpgroups, 1, 2}},
    {"implicit-wgmma-128x64", {128, 64, 32, 2, 16, 6, true, 1, Arithmetic::warpgroups, 1, 1, 2}},
    {"implicit-wgmma-64x64", {64, 64, 32, 2, 16, 4, true, 2, Arithmetic::warpgroups, 1, 1, 2}},
};
inline constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);
inline constexpr int kFirstPlannedTile = 4;
/** Of all tiles' blockK */
inline constexpr int kLargestBlockK = 64;

}  // namespace warpconv::cuda::im2win
