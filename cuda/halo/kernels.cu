#include <array>
#include <utility>

#include "cuda/halo/filter_copies.cuh"
#include "cuda/halo/outputs.cuh"
#include "cuda/halo/patch_loader.cuh"
#include "cuda/halo/sums.cuh"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda::halo {
namespace {

/** By the block's loaders. */
template <HaloTile kTile, bool kPlain>
__device__ void bringElements(const Arguments& x, const Place& place, const Rings<kTile>& rings, float* largest) {
  leaveRegisters<kTile.loaderRegisters()>();
  const int thread = threadIdx.x - kTile.threads();
  const PatchLoader<kTile, kPlain> loader(x, place, rings.elements(), largest, thread);
  RingPlace ring;
  const auto stageOf = [&](int part) {
    if (part >= x.stages) waitForPhase(rings.free(ring.stage), ring.parity ^ 1);
    return rings.stage(ring.stage);
  };
  const auto publish = [&](float scale) {
    if (thread == 0) rings.setInverse(ring.stage, inverseOf(scale));
    // All of them: of one lane for its warp, racecheck takes the others' stores for races with what comes to lie there
    // once the block has its sums, with __syncwarp() before it, too. It took no longer.
    arrive(rings.full(ring.stage));
    ring.advance(x.stages);
  };
  loader.load(place.firstChunk, place.chunks, stageOf, publish);
  if (kTile.held == 1) letNextKernelBegin();
}

/** Groups of taps that are left to multiply as the next kernel is let in, where there is room for its blocks */
constexpr int kGroupsBesideNext = 6;

/** In place of the blocks of a cluster, where a kernel is for any number of them */
constexpr int kAnyBlocks = 0;

/** By the others, from their sums on. `offsets`: of the outputs of channel 0. */
template <HaloTile kTile, int kBlocks, bool kPlain>
__device__ void finishSums(const Arguments& x, const Place& place, const HaloSums<kTile>& sums, float* staged,
                           const int* offsets) {
  // Sums take the place of elements and filters.
  synchroniseFirst<kTile.threads()>();
  sums.write(staged);
  if (kBlocks == 1 || (kBlocks == kAnyBlocks && x.cluster == 1)) {
    const Finish<kTile, 1, kPlain> finish(x, place, staged, offsets);
    synchroniseFirst<kTile.threads()>();
    finish.run();
  } else if constexpr (kBlocks != 1) {
    const Finish<kTile, kBlocks, kPlain> finish(x, place, staged, offsets);
    synchroniseCluster(x.cluster);
    finish.run();
    awaitCluster();
  }
}

template <int kIndex, bool kPlain, int kBlocks>
__global__ void __launch_bounds__(kTiles[kIndex].tile.launchThreads(), kTiles[kIndex].tile.held)
    haloKernel(const __grid_constant__ Arguments x) {
  constexpr HaloTile kTile = kTiles[kIndex].tile;
  extern __shared__ float4 memory[];
  __shared__ RingState state;
  __shared__ alignas(16) int offsets[kTile.blockN];
  __shared__ alignas(16) float largest[2 * kTile.loaders() / 32];

  const Rings<kTile> rings(x, memory, state);
  const Place place = placeOf<kTile>(x);
  constexpr int kOfFilters = (kTile.threads() + kTile.loaders()) / 128;
  const bool bringsFilters = threadIdx.x == 128 * kOfFilters;
  if (bringsFilters) {
    rings.makeFirstBarrier();
    beginFirstFilters(x, place, rings);
    rings.makeBarriers();
  }
  __syncthreads();
  const int warpgroup = warpgroupIndex();
  if (warpgroup == kOfFilters) {
    leaveRegisters<HaloTile::kFewestRegisters>();
    if (bringsFilters) bringOtherFilters(x, place, rings);
    return;
  }
  if (warpgroup >= kTile.threads() / 128) {
    bringElements<kTile, kPlain>(x, place, rings, largest);
    return;
  }

  takeRegisters<kTile.sumRegisters()>();
  for (int i = threadIdx.x; i < kTile.blockN; i += kTile.threads()) offsets[i] = outputOffset(x, place, place.n0 + i);
  HaloSums<kTile> sums(x, place, rings.planeBytes());
  TapGroups<kTile> groups(x, place, rings);
  groups.awaitFirstFilters();
  waitForKernelsBefore();
  TapGroup now = groups.reach(sums);
  const int leftForNext = inRegister(min(kGroupsBesideNext, groups.count()));
#pragma unroll 1
  for (int left = groups.count(); left > 0; --left) {
    TapGroup next = now;
    sums.add(
        now, [&] { return rings.inverse(now.stage); },
        [&] {
          if (left < groups.count()) groups.spendBefore(now);
          // What the next kernel's blocks begin with, their filters above all, is in the way of this one's elements and
          // products; yet it takes as long as two chunks and the outputs. Layers at batch 1 took up to 3 % less since
          // it is not let in with the first elements any more.
          if (kTile.held > 1 && left == leftForNext) letNextKernelBegin();
          if (left > 1) next = groups.reach(sums);
        });
    now = next;
  }
  sums.finish();
  if (kTile.held == 1) letNextKernelBegin();
  finishSums<kTile, kBlocks, kPlain>(x, place, sums, reinterpret_cast<float*>(memory), offsets);
}

/** Of each tile, for all that there may be */
constexpr auto kGeneralKernels = []<int... kIndices>(std::integer_sequence<int, kIndices...>) {
  return std::array<Kernel, kTileCount>{haloKernel<kIndices, false, kAnyBlocks>...};
}
(std::make_integer_sequence<int, kTileCount>());

/** The general one where layers took longer otherwise: 3 to 4 % with 128 x 96 outputs, up to 7 % less with others. */
template <int kIndex>
constexpr Kernel plainKernel() {
  constexpr HaloTile kTile = kTiles[kIndex].tile;
  return kTile.blockM == 128 && kTile.blockN == 96 ? kGeneralKernels[kIndex] : haloKernel<kIndex, true, kAnyBlocks>;
}

/** That of small problems, whose kernels take a few microseconds */
constexpr int kSmallTile = kTileCount - 1;
static_assert(kTiles[kSmallTile].tile.held > 1);

constexpr auto kPlainKernels = []<int... kIndices>(std::integer_sequence<int, kIndices...>) {
  return std::array<Kernel, kSmallTile>{plainKernel<kIndices>()...};
}
(std::make_integer_sequence<int, kSmallTile>());

/** Of the small tile, by the blocks of a cluster less one */
constexpr auto kSmallKernels = []<int... kLess>(std::integer_sequence<int, kLess...>) {
  return std::array<Kernel, kMostBlocks>{haloKernel<kSmallTile, true, kLess + 1>...};
}
(std::make_integer_sequence<int, kMostBlocks>());

}  // namespace

Kernel kernelOf(int tile, const Given& given) {
  if (!given.plain) return kGeneralKernels[tile];
  return tile == kSmallTile ? kSmallKernels[given.blocks - 1] : kPlainKernels[tile];
}

}  // namespace warpconv::cuda::halo
