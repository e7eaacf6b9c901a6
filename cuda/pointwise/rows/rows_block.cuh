#pragma once

#include "cuda/epilogue/sum_exchange.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/pointwise/bring_filters.cuh"
#include "cuda/pointwise/rows/row_outputs.cuh"

namespace warpconv::cuda::pointwise {

/**
 * A block, of one warpgroup, that has a tile of filters by pixels, whose rows are pixels, and a share of the channels.
 * Its filters, split when the plan was made, come to shared memory by one copy before the kernels before are done. The
 * kSplit blocks of a cluster exchange their sums.
 */
template <auto kTile, int kSplit, bool aligned>
class RowsBlock {
 public:
  /** `memory`: the tile's sharedBytes; `barriers`: two of them, in shared memory. */
  __device__ RowsBlock(const Arguments& x, float4* memory, uint64_t* barriers)
      : own(x, kTile.filters, x.tilePixels),
        endPixel(min(own.firstPixel + x.tilePixels, x.pixels)),
        filters(sharedAddress(memory)),
        x_(x),
        barriers_(sharedAddress(barriers)),
        received_(reinterpret_cast<const float*>(memory) + kTile.filterBytes(x.splitChannels) / 4),
        outputs_(x, own, kTile.filters, kSplit > 1 ? own.rank : 0) {
    if (threadIdx.x == 0) {
      bringFilters(x, own, kTile.halves(), filters, kTile.filterBytes(x.splitChannels), barriers_);
      if constexpr (kSplit > 1) exchange().expect();
    }
    // While the kernel before runs; but blocks that exchange their sums do it while their pixels are on their way: what
    // comes before the wait counts sooner in clusters, which begin 0.3 us later. On an H100 that took up to 3 % from
    // theirs, and would have added 3 to 4 % to those of blocks by themselves.
    if constexpr (kSplit == 1) outputs_.find(endPixel);
  }

  /** Before pixels are loaded. Gives back what bringArguments does. */
  __device__ unsigned awaitKernelsBefore() const {
    // For the barriers. See warpgroupKernel for why not in two halves.
    synchroniseCluster(kSplit);
    const unsigned arguments = bringArguments(x_);
    waitForKernelsBefore();
    return arguments;
  }

  /** Once pixels are on their way. */
  __device__ void awaitFilters() {
    if constexpr (kSplit > 1) outputs_.find(endPixel);
    waitForPhase(barriers_, 0);
  }

  /** `pieceOf(p)` is this thread's piece p of the block's sums. With `bounded`, where isBounded. */
  template <bool bounded>
  __device__ void store(auto&& pieceOf) const {
    if constexpr (kSplit == 1) {
      storeSome<bounded, 0, kTile.pieces()>(pieceOf);
    } else {
      auto sums = exchange();
      sums.send(pieceOf);
      sums.receive([&](auto& pieces) { outputs_.template store<bounded>(pieces); });
    }
  }

  /** The same of kCount pieces from kFirst on, of a block by itself. */
  template <bool bounded, int kFirst, int kCount>
  __device__ void storeSome(auto&& pieceOf) const {
    AdjacentSums<2> pieces[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) pieces[i] = pieceOf(kFirst + i);
    outputs_.template store<bounded, kFirst>(pieces);
  }

  const SplitTile own;
  const int endPixel;
  const uint32_t filters;

 private:
  __device__ auto exchange() const {
    return SumExchange<kSplit, kTile.pieces(), kTile.kPieceWidth, kTile.kThreads>(
        received_, barriers_ + static_cast<uint32_t>(sizeof(uint64_t)), own.rank);
  }

  const Arguments& x_;
  const uint32_t barriers_;
  const float* const received_;
  RowOutputs<aligned, kTile.halves().isScaled(), kSplit, kTile.pieces() / kSplit> outputs_;
};

}  // namespace warpconv::cuda::pointwise
