#pragma once

#include "cuda/im2win/filter_copies.cuh"
#include "cuda/im2win/outputs.cuh"
#include "cuda/im2win/sum_again.cuh"
#include "cuda/im2win/warpgroup_sums.cuh"
#include "cuda/im2win/window_splits.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/kernel/ring_place.cuh"

namespace warpconv::cuda::im2win {

/**
 * As im2winGemm, with products by warpgroups, which other warps load for. Shared memory holds kTile.stages stages of
 * window elements in halves and filter elements; of each a barrier says when it is full, and another when it is free.
 */
template <int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].tile.launchThreads(), kTiles[kIndex].tile.blocksPerMultiprocessor)
    im2winWarpgroupGemm(const __grid_constant__ GemmArguments x) {
  constexpr GemmTile kTile = kTiles[kIndex].tile;
  constexpr int kStages = kTile.stages, kTurns = kTile.loaderTurns;
  // A stage is filled by the same loaders each time: nobody else's elements are written over.
  static_assert(kStages % kTurns == 0);
  constexpr int kWindowBytes = 2 * kTile.blockK * kTile.blockN * 4;
  constexpr int kStageBytes = kWindowBytes + kTile.blockK * kTile.pitchM() * 4;
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2 * kStages];
  __shared__ alignas(16) WindowStep steps[kTile.allLoaders() / 32][WindowSplits<kTile>::kCount];
  float* const shared = reinterpret_cast<float*>(memory);
  const uint32_t stages = sharedAddress(shared);
  const uint32_t full = sharedAddress(barriers), free = full + 8 * kStages;

  if (x.sumFollows) letNextKernelBegin();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      // A loader arrives with its filters, and a warp of them with its windows.
      makePhaseBarrier(full + 8 * stage, kTile.loaders() + kTile.loaders() / 32);
      // One lane for its warp would do, and take 2 to 5 % less time with blocks of 64 x 256 (nothing with others), but
      // racecheck takes the other lanes' reads of filters for races then, with __syncwarp() before it, too.
      makePhaseBarrier(free + 8 * stage, kTile.threads());
    }
  }
  const BlockPlace place = placeOf<kTile>(x, static_cast<int>(blockIdx.x));
  const int firstTile = place.split * x.tilesPerSplit;
  const int tiles = min(x.tilesPerSplit, x.tiles - firstTile);
  RingPlace ring;
  __syncthreads();

  if (warpgroupIndex() >= kTile.threads() / 128) {
    leaveRegisters<kTile.loaderRegisters()>();
    const int loader = threadIdx.x - kTile.threads();
    const int thread = loader % kTile.loaders(), turn = loader / kTile.loaders();
    const int firstStep = (firstTile + turn) * kTile.blockK;
    WindowSplits<kTile> windows(x, place, firstStep, stages, steps[loader / 32], thread);
    FilterCopies<kTile, kTile.loaders(), kTurns> filters(x, place, firstStep, stages + kWindowBytes, thread);
    const auto copyFilters = [&](int stage) {
      filters.copyTile(stage * kStageBytes);
      arriveWithCopies(full + 8 * stage);
    };
    // Filters are the plan's own, which no kernel before can be writing.
    for (int stage = turn; stage < min(kStages, tiles); stage += kTurns) copyFilters(stage);
    waitForKernelsBefore();
    if (turn < tiles) windows.fetchTile();
    ring.advanceBy<kStages>(turn);
#pragma unroll 1
    for (int tile = turn; tile < tiles; tile += kTurns) {
      if (tile >= kStages) {
        waitForPhase(free + 8 * ring.stage, ring.parity ^ 1);
        copyFilters(ring.stage);
      }
      windows.storeTile(ring.stage * kStageBytes);
      publishToProducts();
      __syncwarp();
      if (thread % 32 == 0) arrive(full + 8 * ring.stage);
      ring.advanceBy<kStages>(kTurns);
      if (tile + kTurns < tiles) windows.fetchTile();
    }
    letNextKernelBegin();
    return;
  }

  takeRegisters<kTile.sumRegisters()>();
  WarpgroupSums<kTile> sums;
  waitForKernelsBefore();
  const auto filtersAt = [&](int stage) { return shared + (stage * kStageBytes + kWindowBytes) / 4; };
  constexpr int kRound = WarpgroupSums<kTile>::kRound;
  const auto loadFirst = [&]<int kTurn>() {
    waitForPhase(full + 8 * ring.stage, ring.parity);
    sums.template loadFirst<kTurn>(filtersAt(ring.stage));
  };
  const auto addTile = [&]<int kTurn>(bool isLast) {
    const int stage = ring.stage;
    ring.advanceBy<kStages>();
    sums.template addTile<kTurn>(filtersAt(stage), stages + stage * kStageBytes, [&] {
      if (!isLast) loadFirst.template operator()<(kTurn + 1) % kRound>();
    });
    arrive(free + 8 * stage);
  };
  loadFirst.template operator()<0>();
#pragma unroll 1
  for (int tile = 0; tile < tiles; tile += kRound) {
    addTile.template operator()<0>(tile + 1 == tiles);
    if constexpr (kRound == 2) {
      if (tile + 1 < tiles) addTile.template operator()<1>(tile + 2 == tiles);
    }
  }
  letNextKernelBegin();
  synchroniseThreads<kTile>();
  const bool finite = sums.write(shared);
  if (synchroniseAny<kTile>(!finite)) {
    sumNonFiniteAgain<kTile>(x, place, shared, firstTile * kTile.blockK, tiles * kTile.blockK);
  }
  finishSlice<kTile>(x, place, shared, 0);
}

template <int kIndex>
GemmKernel gemmKernel() {
  return im2winWarpgroupGemm<kIndex>;
}

}  // namespace warpconv::cuda::im2win
