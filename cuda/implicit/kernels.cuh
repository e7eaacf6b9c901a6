#pragma once

#include "cuda/implicit/elements.cuh"
#include "cuda/implicit/outputs.cuh"
#include "cuda/kernel/cluster.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/partial_barrier.cuh"

namespace warpconv::cuda::implicit {

/** Sums of a warpgroup's 64 pixels. */
template <typename Element, ImplicitTile kTile, bool kPersists>
class Sums {
 public:
  /** Adds up `chunks` stages of the ring, at least one, which are free once they have been multiplied. */
  __device__ void add(const Ring<kTile, kPersists>& ring, RingPlace& at, int stages, int chunks) {
    multiply<false>(ring, at);
    int before = at.stage;
    at.advance(stages);
    for (int i = 1; i < chunks; ++i) {
      multiply<true>(ring, at);
      waitForEarlierProducts<1>();
      if (threadIdx.x % 32 == 0) arrive(ring.free(before));
      before = at.stage;
      at.advance(stages);
    }
    waitForProducts(sums_);
    if (threadIdx.x % 32 == 0) arrive(ring.free(before));
  }

  /** See PiecePlace */
  __device__ Piece<Element> piece(int i) const {
    constexpr int kChannels = kTile.pieceChannels();
    Piece<Element> piece;
#pragma unroll
    for (int j = 0; j < kChannels; ++j) piece.x[j] = sums_[(i / 2 * (kChannels / 2) + j / 2) * 4 + i % 2 * 2 + j % 2];
    return piece;
  }

 private:
  /** Begins the products of a stage, once it is there. Its first one begins the sums unless they are to be added to. */
  template <bool kAdd>
  __device__ void multiply(const Ring<kTile, kPersists>& ring, const RingPlace& at) {
    waitForPhase(ring.full(at.stage), at.parity);
    constexpr int kWarpgroupBytes = 64 * kRowBytes;
    const uint64_t pixels = swizzledAt(ring.pixels(at.stage) + warpgroupIndex() * kWarpgroupBytes);
    const uint64_t filters = swizzledAt(ring.filters(at.stage));
    // To the channels of the next product, 32 bytes of them; operands are counted in units of 16.
    constexpr int kStepBytes = 32, kStepUnits = kStepBytes / 16;
    beginProducts();
    Element::template multiply<kAdd>(sums_, pixels, filters);
#pragma unroll
    for (int step = 1; step < kRowBytes / kStepBytes; ++step) {
      Element::template multiply<true>(sums_, pixels + step * kStepUnits, filters + step * kStepUnits);
    }
    commitProducts();
  }

  float sums_[kTile.sumsOfThread()];
};

/** Of a piece of the thread of a block. */
template <ImplicitTile kTile>
__device__ PiecePlace placeOf(int piece, int thread) {
  PiecePlace place = PiecePlace::of<kTile>(piece, thread % 128);
  place.pixel += thread / 128 * 64;
  return place;
}

/** Those of this thread's first pieces. */
template <ImplicitTile kTile, int kCount, typename Element>
__device__ void readResiduals(const Outputs<Element>& outputs, Elements (&residuals)[kCount + 1]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) residuals[i] = outputs.residualAt(placeOf<kTile>(i, threadIdx.x));
}

/** Stores a block's own sums, of whose first pieces the residuals have been read. */
template <int kRead, typename Element, ImplicitTile kTile>
__device__ void storeSums(const Outputs<Element>& outputs, const Sums<Element, kTile, false>& sums,
                          const Elements (&residuals)[kRead + 1]) {
#pragma unroll
  for (int i = 0; i < kTile.pieces(); ++i) {
    const PiecePlace place = placeOf<kTile>(i, threadIdx.x);
    Piece<Element> piece = sums.piece(i);
    outputs.store(place, piece, i < kRead ? residuals[i < kRead ? i : 0] : outputs.residualAt(place));
  }
}

/**
 * Adds up the sums of a cluster's blocks and stores what comes of it, each block its share of the pieces. `memory`, the
 * same in all blocks, takes the place of stages that have been multiplied: quads of four sums, the first of each piece,
 * of piece after piece those of all threads, and then the second if there are eight.
 */
template <typename Element, ImplicitTile kTile>
__device__ void exchangeSums(const Outputs<Element>& outputs, const Sums<Element, kTile, false>& sums, int rank,
                             int blocks, float4* memory) {
  constexpr int kThreads = kTile.consumers(), kItems = kTile.pieces() * kThreads, kQuads = kTile.pieceChannels() / 4;
#pragma unroll
  for (int i = 0; i < kTile.pieces(); ++i) {
    const Piece<Element> piece = sums.piece(i);
    const float* const x = piece.x;
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      memory[quad * kItems + i * kThreads + threadIdx.x] =
          make_float4(x[4 * quad], x[4 * quad + 1], x[4 * quad + 2], x[4 * quad + 3]);
    }
  }
  synchroniseCluster(blocks);
  const int end = kItems * (rank + 1) / blocks;
  for (int item = kItems * rank / blocks + threadIdx.x; item < end; item += kThreads) {
    const PiecePlace place = placeOf<kTile>(item / kThreads, item % kThreads);
    const Elements residual = outputs.residualAt(place);
    Piece<Element> piece{};
    for (int from = 0; from < blocks; ++from) {
      const auto* const theirs = static_cast<const float4*>(__cluster_map_shared_rank(memory, from));
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        const float4 four = theirs[quad * kItems + item];
        float* const x = piece.x + 4 * quad;
        x[0] += four.x, x[1] += four.y, x[2] += four.z, x[3] += four.w;
      }
    }
    outputs.store(place, piece, residual);
  }
  awaitClusterReads();
}

/** Of one tile, or of a share of its sum. By the threads that multiply. */
template <typename Element, ImplicitTile kTile>
__device__ void makeTile(const Arguments& x, const Ring<kTile, false>& ring, const OwnTile& tile, int rank, int chunks,
                         float4* memory) {
  waitForKernelsBefore();
  letNextKernelBegin();
  const Outputs<Element> outputs(x, tile);
  // Residuals of larger tiles are more than there are registers for.
  constexpr int kMostAhead = kTile.filters > 64 ? 0 : kTile.pixels > 64 ? 4 : 8;
  constexpr int kAhead = kTile.pieces() < kMostAhead ? kTile.pieces() : kMostAhead;
  Elements residuals[kAhead + 1];
  if (x.split == 1) readResiduals<kTile, kAhead>(outputs, residuals);
  RingPlace at;
  Sums<Element, kTile, false> sums;
  sums.add(ring, at, x.stages, chunks);
  if (x.split > 1) {
    synchroniseFirst<kTile.consumers()>();
    exchangeSums(outputs, sums, rank, x.split, memory);
    return;
  }
  storeSums<kAhead>(outputs, sums, residuals);
}

/** Of tile after tile. By the threads that multiply. */
template <typename Element, ImplicitTile kTile>
__device__ void makeTiles(const Arguments& x, const Ring<kTile, true>& ring) {
  waitForKernelsBefore();
  RingPlace at;
  Sums<Element, kTile, true> sums;
  const BoxedOutputs<Element, kTile> outputs(x, ring);
  outputs.begin();
  int made = 0;
  for (int i = blockIdx.x; i < x.tiles; i += gridDim.x, ++made) {
    sums.add(ring, at, x.stages, x.chunks);
    if (i + gridDim.x >= x.tiles) letNextKernelBegin();
    outputs.store(i, sums, made);
  }
  // They read shared memory, which goes with the block.
  if (threadIdx.x % 128 == 0) waitForStoresToRead();
}

/**
 * Convolution as a matrix product of pixels by filters, whose first operand is never stored: the last warp has the copy
 * engine bring, tap by tap, the channels of a tile's pixels, and filters, to a ring of stages, which warpgroups
 * multiply, each 64 of the pixels. A block that persists takes tile after tile: the next elements are on their way
 * while it finishes outputs, and these while it multiplies. One that does not has one tile, or with the others of a
 * cluster a share of its sum.
 */
template <typename Element, int kIndex, bool kPersists>
__global__ void __launch_bounds__(kTiles[kIndex].tile.threads(), kTiles[kIndex].tile.held)
    implicitKernel(const __grid_constant__ Arguments x) {
  constexpr ImplicitTile kTile = kTiles[kIndex].tile.ofWidth(sizeof(typename Element::Bits));
  // Rows that are swizzled lie in groups of eight.
  extern __shared__ __align__(8 * kRowBytes) float4 memory[];
  const Ring<kTile, kPersists> ring(x, memory);
  const int rank = kPersists ? 0 : blockIdx.x % x.split;
  const int firstTile = kPersists ? blockIdx.x : blockIdx.x / x.split;
  const Share share(x, rank);
  const bool produces = threadIdx.x == kTile.consumers();
  if (produces) {
    prefetchMap(x.input);
    ring.makeBarriers(x.stages);
  }
  __syncthreads();
  if (threadIdx.x < kTile.consumers()) {
    if constexpr (kPersists) {
      makeTiles<Element, kTile>(x, ring);
    } else {
      makeTile<Element, kTile>(x, ring, OwnTile::of<kTile>(x, firstTile), rank, share.end - share.first, memory);
    }
    return;
  }
  if (produces) {
    Producer<kTile, kPersists> producer(x, ring, share);
    producer.beginFilters(OwnTile::of<kTile>(x, firstTile));
    waitForKernelsBefore();
    if constexpr (kPersists) {
      for (int i = firstTile; i < x.tiles; i += gridDim.x) producer.bring(OwnTile::of<kTile>(x, i));
    } else {
      producer.bring(OwnTile::of<kTile>(x, firstTile));
    }
    letNextKernelBegin();
  }
  __syncwarp();
  if (!kPersists && x.split > 1) {
    synchroniseCluster(x.split);
    awaitClusterReads();
  }
}

}  // namespace warpconv::cuda::implicit
