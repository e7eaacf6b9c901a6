#pragma once

#include "cuda/epilogue/sum_exchange.h"
#include "cuda/pointwise/halves_layout.h"
#include "cuda/pointwise/tile.h"

namespace warpconv::cuda::pointwise {

struct RowsModel;

/** What explain() shows of any of these. */
Tiles describeRows(const Patch& patch, const Candidate& candidate);

/**
 * A kernel whose products a warpgroup makes, of up to 64 pixels, which are their rows and lie in registers, and so many
 * filters, their columns. Of steps of kChannels channels, in kParts parts; up to kMostPaired filters are paired,
 * see HalvesLayout. The families differ by the numbers that halves are of.
 */
template <int kChannels, int kMostPaired, int kParts = 2>
struct RowsShape {
  int filters;
  /** Of a chunk, whose products are a chain */
  int chunkSteps;
  /** Blocks of a multiprocessor that registers are to leave room for */
  int residentBlocks;

  static constexpr int kPixels = 64, kThreads = 128, kStepChannels = kChannels;
  constexpr int threads() const { return kThreads; }
  WARPCONV_HOST_DEVICE constexpr HalvesLayout halves() const {
    return {filters, filters <= kMostPaired, kStepChannels, kParts};
  }
  WARPCONV_HOST_DEVICE constexpr int chunks(int64_t channels) const {
    return static_cast<int>((channels + chunkSteps * kStepChannels - 1) / (chunkSteps * kStepChannels));
  }
  /** Of whole chunks: zeros, or what belongs to another block, beyond its own */
  WARPCONV_HOST_DEVICE constexpr int filterBytes(int64_t channels) const {
    return chunks(channels) * chunkSteps * halves().stepBytes();
  }
  /** A thread's sums of a filter: what blocks of a cluster send each other (sum_exchange.cuh) */
  static constexpr int kPieceWidth = 2;
  WARPCONV_HOST_DEVICE constexpr int pieces() const { return filters * kPixels / kThreads / kPieceWidth; }
  static constexpr int64_t offsetBytes() { return 0; }
  /** Of filters, and the sums that come of the `split` blocks of a cluster, where there are several */
  constexpr int64_t sharedBytes(int64_t channels, int split) const {
    return filterBytes(channels) + (split > 1 ? exchangedBytes(pieces(), kPieceWidth, kThreads, split) : 0);
  }
  constexpr int registers() const { return registersFor(residentBlocks, kThreads); }
  WARPCONV_HOST_DEVICE constexpr bool mayBeSplit(int split) const { return pieces() % split == 0; }
  constexpr int stepChannels() const { return kStepChannels; }
  constexpr int unitChannels() const { return kStepChannels; }
  constexpr NameSizes sizes() const { return {filters, kPixels, chunkSteps}; }
  constexpr Patch patch() const { return {filters, kPixels}; }
  Tiles describe(const Candidate& candidate) const { return describeRows(patch(), candidate); }
  constexpr bool operator==(const RowsShape&) const = default;
};

}  // namespace warpconv::cuda::pointwise
