#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"

/**
 * Microkernel::multiply of a pointwise microkernel, written once over a vector type and instantiated like the outer
 * product: windows lie in vector lanes and filters are broadcast, so that sums need not be turned on their way out.
 */
namespace warpconv::lanes {

/** Up to kVectors vectors of windows, of which the last may be filled in part. */
template <class Vector, int kFilters, int kVectors>
void multiplyTile(int64_t count, const WindowView& view, const float* filters, float* sums, int64_t sumsStride) {
  typename Vector::Register total[kFilters][kVectors];
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[f][v] = Vector::zero();
  }
  const typename Vector::First last = Vector::first(count - (kVectors - 1) * Vector::kLanes);
  const float* windows = view.first;
  for (int64_t e = 0; e < view.taps; ++e) {
    typename Vector::Register window[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVectors; ++v) window[v] = Vector::load(windows + v * Vector::kLanes);
    window[kVectors - 1] = Vector::load(last, windows + (kVectors - 1) * Vector::kLanes);
    // Of the next tile: channels are too many streams for the processor to foresee.
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(windows + (kVectors + v) * Vector::kLanes);
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
      const typename Vector::Register weight = Vector::broadcast(filters + f);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) total[f][v] = Vector::multiplyAdd(window[v], weight, total[f][v]);
    }
    windows += view.tapStride;
    filters += kFilters;
  }
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Vector::store(sums + f * sumsStride + v * Vector::kLanes, total[f][v]);
  }
}

/** Finds the instantiation for `count` windows by counting down from the most; sums[f][kMost * kLanes]. */
template <class Vector, int kFilters, int kVectors, int kMost = kVectors>
void multiply(int64_t count, int64_t width, const WindowView& view, const float* filters, float* sums) {
  if constexpr (kVectors > 1) {
    if (count <= (kVectors - 1) * Vector::kLanes) {
      return multiply<Vector, kFilters, kVectors - 1, kMost>(count, width, view, filters, sums);
    }
  }
  multiplyTile<Vector, kFilters, kVectors>(count, view, filters, sums, kMost * Vector::kLanes);
}

}  // namespace warpconv::lanes
