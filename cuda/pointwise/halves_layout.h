#pragma once

#include "host_device.h"

namespace warpconv::cuda::pointwise {

/** How the filters lie that warpgroups' products take from shared memory (filter_halves.cu). */
struct HalvesLayout {
  /** Of a tile */
  int filters;
  /** Whether the low halves of a plane follow its high ones, so that one product takes both */
  bool isPaired;
  /** Of one product: 16 where halves are numbers of FP16 or BF16, 8 where they are of TF32 */
  int stepChannels;
  /** Of a filter: halves, or BF16's thirds, which are paired */
  int parts = 2;

  WARPCONV_HOST_DEVICE constexpr bool isTf32() const { return stepChannels == 8; }
  WARPCONV_HOST_DEVICE constexpr bool isBf16() const { return parts == 3; }
  /** Whether filters have a scale */
  WARPCONV_HOST_DEVICE constexpr bool isScaled() const { return !isTf32() && !isBf16(); }
  /** Of two planes of each of the parts, with 16 bytes for a filter: eight channels, or four of TF32 */
  WARPCONV_HOST_DEVICE constexpr int stepBytes() const { return 2 * parts * 16 * filters; }
  /** From a filter's high half in a plane to that in the next one, and to its low half; or from third to third */
  WARPCONV_HOST_DEVICE constexpr int planeBytes() const { return (isPaired ? parts : 1) * 16 * filters; }
  WARPCONV_HOST_DEVICE constexpr int lowBytes() const { return isPaired ? 16 * filters : stepBytes() / 2; }
};

}  // namespace warpconv::cuda::pointwise
