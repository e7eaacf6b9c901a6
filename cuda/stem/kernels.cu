#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/stem/outputs.cuh"
#include "cuda/stem/patch_loader.cuh"

namespace warpconv::cuda::stem {
namespace {

template <int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].tile.threads(), kTiles[kIndex].tile.held)
    stemKernel(const __grid_constant__ Arguments x) {
  constexpr StemTile kTile = kTiles[kIndex].tile;
  extern __shared__ float4 memory[];
  __shared__ uint64_t barrier;
  __shared__ uint16_t offsets[sizeof(x.offsets) / sizeof(uint16_t)];
  __shared__ alignas(16) float inverses[kTile.blockM], biases[kTile.blockM], largest[kTile.threads() / 32];
  const Place place = placeOf<kTile>(x);
  const int block = place.group * x.outputBlocks + place.block;
  const uint32_t filters = sharedAddress(memory), filtersThere = sharedAddress(&barrier);
  const int filterBytes = x.steps * kTile.stepBytes();
  if (threadIdx.x == 0) {
    makePhaseBarrier(filtersThere, 1);
    publishBarriers();
    arriveExpecting(filtersThere, filterBytes);
    copyBulk(filters, x.filter + int64_t{block} * (filterBytes / 4), filterBytes, filtersThere);
  }
  for (int i = threadIdx.x; i < (x.steps + kMostTogether - 1) * kStepPairs; i += kTile.threads())
    offsets[i] = x.offsets[i];
  for (int i = threadIdx.x; i < kTile.blockM; i += kTile.threads()) {
    inverses[i] = __ldg(x.filterInverses + block * kTile.blockM + i);
    const bool hasBias = x.epilogue.bias != nullptr && place.m0 + i < x.shape.groupOutputs;
    biases[i] = hasBias ? __ldg(x.epilogue.bias + place.group * x.shape.groupOutputs + place.m0 + i) : 0.0f;
  }
  float* const staged = reinterpret_cast<float*>(memory + filterBytes / 16);
  float2* words = reinterpret_cast<float2*>(staged + kTile.rows * kTile.stagedFloats());
  float2* nextWords = words + (x.patches - 1) * x.wordsEach * kTile.threads();
  const PatchLoader<kTile> loader(x, place, largest);
  StemSums<kTile> sums(x, offsets, filters);
  const Outputs<kTile> outputs(x, place, staged, inverses, biases);
  TileOrigin tile = originOf<kTile>(x, place.firstTile);
  typename PatchLoader<kTile>::Held held;
  loader.prepare(held, tile);
  // For the tables, and the barrier
  __syncthreads();
  waitForPhase(filtersThere, 0);
  waitForKernelsBefore();
  loader.begin(held, tile, words);
  letNextKernelBegin();
  float inverse = loader.split(held, words);
#pragma unroll 1
  for (int i = place.firstTile;;) {
    // Since all have begun to split this patch, nobody reads of the one before any more.
    const TileOrigin now = tile;
    const bool isLast = (i += x.tilesApart) >= x.tiles;
    if (!isLast) {
      tile = originOf<kTile>(x, i);
      loader.begin(tile, nextWords);
    }
    __syncthreads();
    sums.add(reinterpret_cast<const uint2*>(words));
    outputs.write(sums, now, inverse);
    if (isLast) break;
    float2* const other = words;
    words = nextWords, nextWords = other;
    inverse = loader.split(words);
  }
}

}  // namespace

Kernel kernelOf(int tile) {
  constexpr Kernel kKernels[] = {stemKernel<0>, stemKernel<1>, stemKernel<2>, stemKernel<3>};
  static_assert(sizeof(kKernels) / sizeof(kKernels[0]) == kTileCount);
  return kKernels[tile];
}

}  // namespace warpconv::cuda::stem
