#pragma once

#include "cuda/epilogue/store_pieces.cuh"
#include "cuda/epilogue/sum_exchange.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/pointwise/bring_filters.cuh"
#include "cuda/pointwise/sum_again.cuh"
#include "cuda/pointwise/warpgroup/chunk_pixels.cuh"
#include "cuda/pointwise/warpgroup/tile.h"
#include "cuda/pointwise/warpgroup/warpgroup_sums.cuh"

namespace warpconv::cuda::pointwise {

/** Offsets of columns in the first of a block's output channels, kBeyond where there is no output. By all threads. */
template <WarpgroupTile kTile, bool aligned>
__device__ void findColumnOffsets(const Arguments& x, const SplitTile& own, int endPixel, int* offsets) {
  for (int i = threadIdx.x; i < kTile.pixels; i += WarpgroupTile::kThreads) {
    const int pixel = own.firstPixel + Columns<aligned>::pixelOf(i);
    offsets[i] = pixel < endPixel ? outputOffset(x, pixel, own.group) + own.firstFilter * x.outputArea : kBeyond;
  }
}

/** Finishes and stores the outputs of a thread's pieces. */
template <WarpgroupTile kTile, bool aligned>
class PieceOutputs {
  template <int kCount>
  class Steps;

 public:
  static constexpr int kWidth = kTile.pieceWidth();

  /** `offsets`: of columns. Reads of the plan's own alone, and waits for nothing. */
  __device__ PieceOutputs(const Arguments& x, const SplitTile& own, const int* offsets)
      : x_(x), own_(own), offsets_(offsets) {
    const float* const inverses = x.filterInverses + own.group * x.filterTiles * WarpgroupTile::kFilters;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = WarpgroupSums<kTile, aligned>::rowOf(half), k = own.firstFilter + row;
      const bool hasBias = x.bias != nullptr && k < x.groupOutputs;
      inverses_[half] = __ldg(inverses + k);
      biases_[half] = hasBias ? __ldg(x.bias + own.group * x.groupOutputs + k) : 0.0f;
    }
  }

  /** Where kCount pieces lie: `first`, `first` + `step` and so on. Once all threads have found columns' offsets. */
  template <int kCount>
  __device__ Steps<kCount> find(int first, int step) const {
    return {*this, first, step};
  }

  /** Of those. With `bounded`, where isBounded. */
  template <bool bounded, int kCount>
  __device__ void store(const Steps<kCount>& steps, AdjacentSums<kWidth> (&sums)[kCount]) const {
    storePieces<bounded, true>(sums, x_.activation, steps);
  }

 private:
  /** The `i`th of a piece's, see Columns */
  static __device__ int columnOf(int first, int i) {
    return first + i / 2 * 8 + (i % 2 ^ Columns<aligned>::swapped(first));
  }

  __device__ bool exists(int piece) const {
    return own_.firstFilter + WarpgroupSums<kTile, aligned>::rowOf(piece) < x_.groupOutputs;
  }

  /** What storePieces asks for */
  template <int kCount>
  class Steps {
    using Piece = AdjacentSums<kWidth>;

   public:
    __device__ Steps(const PieceOutputs& all, int first, int step) : all_(all), first_(first), step_(step) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        channels_[i] = WarpgroupSums<kTile, aligned>::rowOf(piece(i)) * all.x_.outputArea;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const int column = columnOf(WarpgroupSums<kTile, aligned>::columnOf(piece(i)), j);
          offsets_[i][j] = all.exists(piece(i)) ? all.offsets_[column] : kBeyond;
        }
      }
    }

    __device__ float inverse(int i) const { return piece(i) % 2 == 0 ? all_.inverses_[0] : all_.inverses_[1]; }
    __device__ float bias(int i) const { return piece(i) % 2 == 0 ? all_.biases_[0] : all_.biases_[1]; }
    __device__ void makeAgain(int i, Piece& sums) const {
      if (!all_.exists(piece(i))) return;
      const int filter = all_.own_.firstFilter + WarpgroupSums<kTile, aligned>::rowOf(piece(i));
      const int column = WarpgroupSums<kTile, aligned>::columnOf(piece(i));
      sums = madeAgain(all_.x_, all_.own_.group, filter, all_.own_.firstPixel, column, all_.offsets_, sums);
    }
    __device__ void addResidual(int i, Piece& sums) const { all_.addResidual(sums, offsets_[i], channels_[i]); }
    __device__ void write(int i, const Piece& sums) const { all_.write(sums, offsets_[i], channels_[i]); }

   private:
    __device__ int piece(int i) const { return first_ + i * step_; }

    const PieceOutputs& all_;
    int first_, step_;
    int offsets_[kCount][kWidth], channels_[kCount];
  };

  /** Of a channel that begins at `channel` in the output, from a block's first on. */
  __device__ void addResidual(AdjacentSums<kWidth>& sums, const int (&offsets)[kWidth], int channel) const {
    if (x_.residual == nullptr) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (offsets[i] != kBeyond) sums.x[i] += x_.residual[offsets[i] + channel];
    }
  }
  __device__ void write(const AdjacentSums<kWidth>& sums, const int (&offsets)[kWidth], int channel) const {
    if constexpr (aligned) {
      if (offsets[0] != kBeyond) sums.store(x_.output + (offsets[0] + channel));
    } else {
      storeEach(sums, offsets, channel, x_.output);
    }
  }

  /** By value, since what a call is given by reference lies in memory for the whole kernel. */
  static __device__ __noinline__ AdjacentSums<kWidth> madeAgain(const Arguments& x, int group, int filter,
                                                                int firstPixel, int column, const int* offsets,
                                                                AdjacentSums<kWidth> sums) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const int at = columnOf(column, i);
      if (isfinite(sums.x[i]) || offsets[at] == kBeyond) continue;
      sums.x[i] = sumAgain(x, group, 0, x.groupInputs, filter, firstPixel + Columns<aligned>::pixelOf(at));
    }
    return sums;
  }

  const Arguments& x_;
  const SplitTile& own_;
  const int* offsets_;
  /** Of this thread's two rows */
  float inverses_[2], biases_[2];
};

template <WarpgroupTile kTile, int kSplit>
using WarpgroupExchange = SumExchange<kSplit, WarpgroupTile::kPieces, kTile.pieceWidth(), WarpgroupTile::kThreads>;

/**
 * A block, of one warpgroup, has a tile of filters by pixels, and a share of the channels. Filters, split when the plan
 * was made, come to shared memory by one copy before the kernels before are done; pixels by way of registers, which
 * split them, chunk by chunk, the next one's on their way as the warpgroup multiplies. The two chunks of a pair are on
 * their way together, and the second is split as the first is multiplied. Blocks of a cluster then exchange their sums.
 */
template <int kIndex, int kSplit, bool isPair, bool aligned, bool bounded>
__global__ void __launch_bounds__(WarpgroupTile::kThreads, kWarpgroupTiles[kIndex].residentBlocks)
    warpgroupKernel(const __grid_constant__ Arguments x) {
  constexpr WarpgroupTile kTile = kWarpgroupTiles[kIndex];
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2];
  __shared__ alignas(16) int offsets[kTile.pixels];
  __shared__ alignas(16) float largest[WarpgroupTile::kThreads / 32];

  const SplitTile own(x, kTile.kFilters, x.tilePixels);
  const int endPixel = min(own.firstPixel + x.tilePixels, x.pixels);
  const int filterBytes = kTile.filterBytes(x.splitChannels);
  const uint32_t filters = sharedAddress(memory), shared = filters + filterBytes;
  const uint32_t filtersThere = sharedAddress(barriers), sumsThere = filtersThere + sizeof(barriers[0]);
  const int bytes = filterBytes + (isPair ? 2 : 1) * kTile.chunkBytes();
  const auto* const received = reinterpret_cast<const float*>(memory) + bytes / 4;
  if (threadIdx.x == 0) {
    bringFilters(x, own, WarpgroupTile::kHalves, filters, filterBytes, filtersThere);
    if constexpr (kSplit > 1) WarpgroupExchange<kTile, kSplit>(received, sumsThere, own.rank).expect();
  }
  findColumnOffsets<kTile, aligned>(x, own, endPixel, offsets);
  const PieceOutputs<kTile, aligned> outputs(x, own, offsets);
  using Pixels = ChunkPixels<kTile, aligned>;
  const Pixels pixels(x, own, endPixel);
  typename Pixels::Addresses addresses[isPair ? 2 : 1];
#pragma unroll
  for (int i = 0; i < (isPair ? 2 : 1); ++i) addresses[i] = pixels.addressesOf(i);
  Pixels::keep(addresses);
  WarpgroupSums<kTile, aligned> sums;
  // For what is in shared memory, and for the sums that come there. Not in two halves, the first right after what one
  // thread does: blocks of clusters waited for ever then. In the machine code that thread's arrival lay before its warp
  // met again; probably the warp counted twice, and sums were sent to barriers that were not made yet.
  synchroniseCluster(kSplit);
  const unsigned arguments = bringArguments(x);
  waitForKernelsBefore();
  // The filters of two chunks of 128 channels are 64 KB, which the next kernel's blocks then begin to bring sooner: on
  // an H100 pw_14_1024_256 took 3.25 us for 3.39. Beside smaller ones it added 1 %.
  constexpr bool kBeginsNow = isPair && kTile.chunkChannels() == 128;
  if constexpr (kBeginsNow) letNextKernelBeginNow(arguments);
  typename Pixels::Chunk chunk;
  pixels.load(chunk, addresses[0]);
  // Splits what was loaded, for products that begin next. Gives back the inverse of the scale.
  const auto publish = [&](const typename Pixels::Chunk& loaded, uint32_t to) {
    const float inverse = pixels.split(loaded, to, largest);
    publishToProducts();
    __syncthreads();
    return inverse;
  };
  constexpr int kFilterBytes = kTile.chunkSteps() * kTile.kStepBytes;
  if constexpr (isPair) {
    typename Pixels::Chunk second;
    pixels.load(second, addresses[1]);
    if constexpr (!kBeginsNow) letNextKernelBegin();
    waitForPhase(filtersThere, 0);
    const float inverse = publish(chunk, shared);
    sums.begin(filters, shared);
    const float secondInverse = publish(second, shared + kTile.chunkBytes());
    sums.finish(inverse);
    sums.begin(filters + kFilterBytes, shared + kTile.chunkBytes());
    sums.finish(secondInverse);
  } else {
    letNextKernelBegin();
    waitForPhase(filtersThere, 0);
#pragma unroll 1
    for (int i = 0, chunks = kTile.chunks(x.splitChannels); i < chunks; ++i) {
      const float inverse = publish(chunk, shared);
      // Not before: what publishes waits for loads, too.
      if (i + 1 < chunks) pixels.load(chunk, pixels.addressesOf(i + 1));
      sums.begin(filters + i * kFilterBytes, shared);
      sums.finish(inverse);
    }
  }

  if constexpr (kSplit == 1) {
    AdjacentSums<kTile.pieceWidth()> pieces[kTile.kPieces];
#pragma unroll
    for (int p = 0; p < kTile.kPieces; ++p) pieces[p] = sums.piece(p);
    outputs.template store<bounded>(outputs.template find<kTile.kPieces>(0, 1), pieces);
  } else {
    WarpgroupExchange<kTile, kSplit> exchange(received, sumsThere, own.rank);
    exchange.send([&](int p) { return sums.piece(p); });
    const auto steps = outputs.template find<kTile.kPieces / kSplit>(own.rank, kSplit);
    exchange.receive([&](auto& pieces) { outputs.template store<bounded>(steps, pieces); });
  }
}

}  // namespace warpconv::cuda::pointwise
