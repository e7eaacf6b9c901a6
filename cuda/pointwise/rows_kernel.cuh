#pragma once

#include "cuda/launch.cuh"
#include "cuda/phase_barrier.cuh"
#include "cuda/pointwise/bring_filters.cuh"
#include "cuda/pointwise/row_pixels.cuh"
#include "cuda/pointwise/row_sums.cuh"
#include "cuda/pointwise/sum_again.cuh"
#include "cuda/sum_exchange.cuh"

namespace warpconv::cuda::pointwise {

/** Finishes and stores the outputs of a thread's pieces, kCount of them: `first`, `first` + `step`, and so on. */
template <RowsTile kTile, bool aligned, int kCount>
class RowOutputs {
  using Piece = AdjacentSums<2>;

 public:
  __device__ RowOutputs(const Arguments& x, const SplitTile& own, int first, int step)
      : x_(x), own_(own), first_(first), step_(step) {}

  /** Where they lie, and what the plan knows of their filters. Reads of its own alone, and waits for nothing. */
  __device__ void find(int endPixel) {
    const float* const inverses = x_.filterInverses + own_.group * x_.filterTiles * kTile.filters;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int k = filterOf(i);
      const bool exists = k < x_.groupOutputs;
      inverses_[i] = __ldg(inverses + k);
      biases_[i] = x_.bias != nullptr && exists ? __ldg(x_.bias + own_.group * x_.groupOutputs + k) : 0.0f;
      channels_[i] = exists ? k * x_.outputArea : kBeyond;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pixel = own_.firstPixel + rowPixel<aligned>(i);
      offsets_[i] = pixel < endPixel ? outputOffset(x_, pixel, own_.group) : kBeyond;
    }
  }

  /** With `bounded`, where isBounded. */
  template <bool bounded>
  __device__ void store(Piece (&sums)[kCount]) const {
    float zero = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (float& sum : sums[i].x) {
        sum *= inverses_[i];
        zero = fmaf(sum, 0.0f, zero);
      }
    }
    if (zero != 0.0f) makeAgain(sums);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (float& sum : sums[i].x) sum += biases_[i];
      if constexpr (bounded) {
#pragma unroll
        for (float& sum : sums[i].x) sum = clamp(sum, x_.activation);
      } else {
        addResidual(sums[i], channels_[i]);
        activate(sums[i], x_.activation);
      }
      if (channels_[i] != kBeyond) write(sums[i], channels_[i]);
    }
  }

 private:
  __device__ int filterOf(int i) const { return own_.firstFilter + RowSums<kTile>::filterOf(first_ + i * step_); }

  __device__ void makeAgain(Piece (&sums)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (channels_[i] != kBeyond) sums[i] = madeAgain(x_, own_.group, filterOf(i), own_.firstPixel, sums[i]);
    }
  }
  /**
   * With those that are not finite made again: see TensorSums for why they may be wrong, and lacksBits. By value, since
   * what a call is given by reference lies in memory for the whole kernel.
   */
  static __device__ __noinline__ Piece madeAgain(const Arguments& x, int group, int filter, int firstPixel,
                                                 Piece sums) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int pixel = firstPixel + rowPixel<aligned>(i);
      if (!isfinite(sums.x[i]) && pixel < x.pixels) sums.x[i] = sumAgain(x, group, 0, x.groupInputs, filter, pixel);
    }
    return sums;
  }

  __device__ void addResidual(Piece& sums, int channel) const {
    if (x_.residual == nullptr || channel == kBeyond) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (offsets_[i] != kBeyond) sums.x[i] += x_.residual[offsets_[i] + channel];
    }
  }
  __device__ void write(const Piece& sums, int channel) const {
    if constexpr (aligned) {
      if (offsets_[0] != kBeyond) *reinterpret_cast<Piece*>(x_.output + (offsets_[0] + channel)) = sums;
    } else {
      storeEach(sums, offsets_, channel, x_.output);
    }
  }

  const Arguments& x_;
  const SplitTile& own_;
  int first_, step_;
  /** Of this thread's pixels, and of its filters' channels from there on: kBeyond where there is no output */
  int offsets_[2], channels_[kCount];
  float inverses_[kCount], biases_[kCount];
};

template <RowsTile kTile, int kSplit>
using RowsExchange = SumExchange<kSplit, kTile.pieces(), RowsTile::kPieceWidth, RowsTile::kThreads>;

/**
 * A block, of one warpgroup, has a tile of filters by pixels, and a share of the channels. Filters, split when the plan
 * was made, come to shared memory by one copy before the kernels before are done. Pixels never lie there: each thread
 * reads those that its registers are to hold as a first operand, two chunks ahead, and splits them. So there is no
 * barrier between a load and the product that takes it. Blocks of a cluster then exchange their sums.
 */
template <int kIndex, int kSplit, bool aligned, bool bounded>
__global__ void __launch_bounds__(RowsTile::kThreads, kRowsTiles[kIndex].residentBlocks)
    rowsKernel(const __grid_constant__ Arguments x) {
  constexpr RowsTile kTile = kRowsTiles[kIndex];
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2];

  const SplitTile own(x, kTile.filters, x.tilePixels);
  const int endPixel = min(own.firstPixel + x.tilePixels, x.pixels);
  const int filterBytes = kTile.filterBytes(x.splitChannels);
  const uint32_t filters = sharedAddress(memory);
  const uint32_t filtersThere = sharedAddress(barriers), sumsThere = filtersThere + sizeof(barriers[0]);
  const auto* const received = reinterpret_cast<const float*>(memory) + filterBytes / 4;
  if (threadIdx.x == 0) {
    bringFilters(x, own, kTile.halves(), filters, filterBytes, filtersThere);
    if constexpr (kSplit > 1) RowsExchange<kTile, kSplit>(received, sumsThere, own.rank).expect();
  }
  RowOutputs<kTile, aligned, kTile.pieces() / kSplit> outputs(x, own, kSplit > 1 ? own.rank : 0, kSplit);
  // While the kernel before runs; but blocks that exchange their sums do it while their pixels are on their way: what
  // comes before the wait counts sooner in clusters, which begin 0.3 us later. On an H100 that took up to 3 % from
  // theirs, and would have added 3 to 4 % to those of blocks by themselves.
  if constexpr (kSplit == 1) outputs.find(endPixel);
  using Pixels = RowPixels<kTile, aligned>;
  Pixels pixels(x, own, endPixel);
  const typename Pixels::Addresses first = pixels.addressesOf(0), second = pixels.addressesOf(1);
  Pixels::keep(first, second);
  RowSums<kTile> sums;
  // For the barriers. See warpgroupKernel for why not in two halves.
  synchroniseCluster(kSplit);
  bringArguments(x);
  waitForKernelsBefore();
  typename Pixels::Chunk chunks[2];
  pixels.load(chunks[0], first);
  pixels.load(chunks[1], second);
  letNextKernelBegin();
  if constexpr (kSplit > 1) outputs.find(endPixel);
  waitForPhase(filtersThere, 0);
  uint32_t chunkFilters = filters;
  int next = 2;
#pragma unroll 1
  for (int left = kTile.chunks(x.splitChannels); left > 0; left -= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i >= left) break;
      const RowOperand<kTile> operand = Pixels::split(chunks[i]);
      if (left > i + 2) pixels.load(chunks[i], pixels.addressesOf(next++));
      sums.add(chunkFilters, operand);
      chunkFilters += kTile.chunkSteps * kTile.halves().stepBytes();
    }
  }

  if constexpr (kSplit == 1) {
    AdjacentSums<2> pieces[kTile.pieces()];
#pragma unroll
    for (int p = 0; p < kTile.pieces(); ++p) pieces[p] = sums.piece(p);
    outputs.template store<bounded>(pieces);
  } else {
    RowsExchange<kTile, kSplit> exchange(received, sumsThere, own.rank);
    exchange.send([&](int p) { return sums.piece(p); });
    exchange.receive([&](int, int, auto& pieces) { outputs.template store<bounded>(pieces); });
  }
}

}  // namespace warpconv::cuda::pointwise
