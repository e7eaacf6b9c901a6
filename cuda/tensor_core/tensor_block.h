#pragma once

#include "host_device.h"

namespace warpconv::cuda {

/**
 * How a block of threads multiplies an M x K matrix by a K x N one, which lie K-major in stages of shared memory, on
 * tensor cores: each warp makes a patch of 8 * threadM x 4 * threadN sums, and `parts` warps share the steps of a stage
 * for the same patch.
 */
struct TensorBlock {
  int m, n;
  /** Steps of K in a stage */
  int k;
  int threadM, threadN;
  int parts;

  WARPCONV_HOST_DEVICE constexpr int warpM() const { return 8 * threadM; }
  WARPCONV_HOST_DEVICE constexpr int warpN() const { return 4 * threadN; }
  WARPCONV_HOST_DEVICE constexpr int warpsM() const { return m / warpM(); }
  WARPCONV_HOST_DEVICE constexpr int warpsN() const { return n / warpN(); }
  WARPCONV_HOST_DEVICE constexpr int threads() const { return 32 * warpsM() * warpsN() * parts; }
  /** Rows and columns whose operands a thread reads at once */
  WARPCONV_HOST_DEVICE constexpr int pieceM() const { return threadM % 4 == 0 ? 4 : 2; }
  WARPCONV_HOST_DEVICE constexpr int pieceN() const { return threadN % 8 == 0 ? 4 : 2; }
  /**
   * Floats from one step of a stage to the next: the four steps that are read at a time lie 8 banks apart, which keeps
   * them from conflicts.
   */
  WARPCONV_HOST_DEVICE constexpr int pitchM() const { return m + 8; }
  WARPCONV_HOST_DEVICE constexpr int pitchN() const { return n + 8; }
  WARPCONV_HOST_DEVICE constexpr int stageFloats() const { return k * (pitchM() + pitchN()); }
  constexpr bool operator==(const TensorBlock&) const = default;
};

}  // namespace warpconv::cuda
