#pragma once

#include "cuda/epilogue/staged_sums.cuh"

namespace warpconv::cuda {

// A family says by functions where a tile's outputs go, so that a kernel's arguments are read where they are needed and
// take no registers before:
// - epilogue(), output()
// - offsets: of the columns in the output of the group's channel 0, or kBeyond
// - channels(), channelsBefore(): of the group, and of the groups before
// - channelSize(): outputs of a channel of an image
// - aligned(): whether four columns from a multiple of four are 16 aligned bytes

/**
 * Finishes and stores a tile. `sumsOf<kWidth>(row, column)` gives its sums. `channelOf(row)` gives the channel within
 * the group, and increases with the row. A rolled loop over a staged tile: activations inlined for each register would
 * fill the instruction cache. Masks what lies beyond the last channel and column. Of `shares` blocks that share the
 * tile, the block `share` stores every `shares`-th piece. `rolled` keeps the loop to few registers. What most outputs
 * need, and no more, has a loop of its own: see isBounded; with `bounded`, which says that it is, there is no other.
 */
template <int rows, int columns, int threads, bool bounded = false, bool rolled = false>
__device__ void storeTile(const auto& to, int share, int shares, auto channelOf, auto sumsOf) {
  const Epilogue epilogue = to.epilogue();
  const auto storeAt = [&]<int kWidth>(int i, auto finishSums) {
    const int channel = channelOf(i / columns);
    const int offset = to.offsets[i % columns];
    if (channel >= to.channels() || offset == kBeyond) return;
    const int index = offset + channel * to.channelSize();
    AdjacentSums<kWidth> sums = sumsOf.template operator()<kWidth>(i / columns, i % columns);
    finishSums(sums, to.channelsBefore() + channel, index);
    sums.store(to.output() + index);
  };
  const auto storeAll = [&]<int kWidth>(auto finishSums) {
    const int first = kWidth * (share * threads + threadIdx.x), step = kWidth * shares * threads;
    if constexpr (rolled) {
#pragma unroll 1
      for (int i = first; i < rows * columns; i += step) storeAt.template operator()<kWidth>(i, finishSums);
    } else {
      for (int i = first; i < rows * columns; i += step) storeAt.template operator()<kWidth>(i, finishSums);
    }
  };
  const auto storeBy = [&]<int kWidth>() {
    if (bounded || isBounded(epilogue)) {
      storeAll.template operator()<kWidth>(
          [&](AdjacentSums<kWidth>& sums, int k, int) { finishBounded(epilogue, sums, biasOf(epilogue, k)); });
    } else {
      storeAll.template operator()<kWidth>(
          [&](AdjacentSums<kWidth>& sums, int k, int index) { finish(epilogue, sums, k, index); });
    }
  };
  if (columns % 4 == 0 && to.aligned()) {
    storeBy.template operator()<4>();
  } else {
    storeBy.template operator()<1>();
  }
}

}  // namespace warpconv::cuda
