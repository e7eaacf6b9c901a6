#pragma once

#include "cuda/implicit/arguments.h"
#include "cuda/implicit/tile.h"
#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/kernel/ring_place.cuh"
#include "cuda/kernel/tensor_copy.cuh"

namespace warpconv::cuda::implicit {

/** Tile `index` of the output, those of the same pixels one after the other so that they find them in the cache. */
struct OwnTile {
  int firstPixel, firstFilter;

  template <ImplicitTile kTile>
  static __device__ OwnTile of(const Arguments& x, int index) {
    const int row = x.byTilesN.divide(index);
    return {row * kTile.pixels, index * kTile.filters};
  }
};

/** Chunks of the sum that a block has: `first` up to `end`. */
struct Share {
  int first, end;

  __device__ Share(const Arguments& x, int rank)
      : first(x.chunks * rank / x.split), end(x.chunks * (rank + 1) / x.split) {}
};

/**
 * Shared memory of a block: boxes of outputs where it persists, then stages, each elements of its pixels and filters,
 * and barriers.
 */
template <ImplicitTile kTile, bool kPersists>
class Ring {
 public:
  __device__ Ring(const Arguments& x, const void* memory)
      : outputs_(sharedAddress(memory)),
        stages_(outputs_ + (kPersists ? kTile.outputBytes(x.heldBoxes) : 0)),
        barriers_(outputs_ + x.barriersAt) {}

  /** Box after box */
  __device__ uint32_t outputs(const Arguments& x, int warpgroup) const {
    return outputs_ + (warpgroup * kTile.boxBytes() << x.heldBoxes);
  }
  __device__ uint32_t pixels(int stage) const { return stages_ + stage * kTile.stageBytes(); }
  __device__ uint32_t filters(int stage) const { return pixels(stage) + kTile.pixelBytes(); }
  /** A stage has arrived, or has been multiplied */
  __device__ uint32_t full(int stage) const { return barriers_ + 8 * stage; }
  __device__ uint32_t free(int stage) const { return barriers_ + 8 * (kMostStages + stage); }
  /** The residual lies where outputs will */
  __device__ uint32_t residualThere(int place) const { return barriers_ + 8 * (2 * kMostStages + place); }

  __device__ void makeBarriers(int stages) const {
    for (int i = 0; i < stages; ++i) {
      makePhaseBarrier(full(i), 1);
      makePhaseBarrier(free(i), kTile.consumers() / 32);
    }
    if constexpr (kPersists) {
#pragma unroll
      for (int i = 0; i < kMostBoxes; ++i) makePhaseBarrier(residualThere(i), 1);
    }
    publishBarriers();
  }

 private:
  const uint32_t outputs_, stages_, barriers_;
};

/** What brings a block's stages: one thread. */
template <ImplicitTile kTile, bool kPersists>
class Producer {
 public:
  __device__ Producer(const Arguments& x, const Ring<kTile, kPersists>& ring, const Share& share)
      : x_(x), ring_(ring), share_(share) {}

  /** The filters of the first tile's first stages, which no kernel before can be writing. */
  __device__ void beginFilters(const OwnTile& tile) {
    ahead_ = min(x_.stages, share_.end - share_.first);
    for (int i = 0; i < ahead_; ++i) bringFilters(tile, i, share_.first + i);
  }

  __device__ void bring(const OwnTile& tile) {
    WindowPlace place;
    int pixel = tile.firstPixel;
    place.n = x_.byImage.divide(pixel);
    place.h = x_.byRow.divide(pixel) * x_.strideH - x_.padTop;
    place.w = pixel * x_.strideW - x_.padLeft;
    // Chunk i has chunk i % channelChunks of the channels of tap i / channelChunks.
    int chunk = share_.first;
    int tap = x_.byChannelChunks.divide(chunk);
    int row = x_.byColumns.quotient(tap), column = tap - row * x_.s;
    for (int i = share_.first; i < share_.end; ++i) {
      if (ahead_ > 0) {
        --ahead_;
      } else {
        waitForPhase(ring_.free(at_.stage), at_.parity ^ 1);
        bringFilters(tile, at_.stage, i);
      }
      copyWindows(ring_.pixels(at_.stage), x_.input, place, chunk * kTile.chunkChannels(), row * x_.dilationH,
                  column * x_.dilationW, ring_.full(at_.stage));
      at_.advance(x_.stages);
      if (++chunk < x_.channelChunks) continue;
      chunk = 0;
      if (++column == x_.s) column = 0, ++row;
    }
  }

 private:
  /** Expects the pixels, too. Rows beyond the last filter are left as they are: no output is made of them. */
  __device__ void bringFilters(const OwnTile& tile, int stage, int chunk) const {
    const uint32_t bytes = min(kTile.filters, x_.filterRows - tile.firstFilter) * kRowBytes;
    const auto* const from = static_cast<const char*>(x_.filters) +
                             (static_cast<int64_t>(chunk) * x_.filterRows + tile.firstFilter) * kRowBytes;
    arriveExpecting(ring_.full(stage), bytes + kTile.pixelBytes());
    copyBulk(ring_.filters(stage), from, bytes, ring_.full(stage));
  }

  const Arguments& x_;
  const Ring<kTile, kPersists>& ring_;
  const Share& share_;
  RingPlace at_;
  /** Stages whose filters are on their way already */
  int ahead_ = 0;
};

}  // namespace warpconv::cuda::implicit
