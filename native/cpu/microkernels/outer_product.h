#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"

/**
 * The outer product, written once over a vector type. Each instruction set's file instantiates it with a type of its
 * own, and nothing here is shared between instantiations, so that no code of a wider instruction set can be linked into
 * a narrower one. A vector type has `kLanes`, `Register`, and static zero, load, broadcast, multiplyAdd and store.
 */
namespace warpconv::outer {

template <class Vector, int kWindows, int kVectors>
void multiplyTile(int64_t depth, const float* windows, int64_t windowStride, const float* filters, float* sums) {
  typename Vector::Register total[kWindows][kVectors];
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[w][v] = Vector::zero();
  }
  for (int64_t e = 0; e < depth; ++e) {
    typename Vector::Register filter[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) filter[v] = Vector::load(filters + v * Vector::kLanes);
#pragma GCC unroll 16
    for (int w = 0; w < kWindows; ++w) {
      const typename Vector::Register window = Vector::broadcast(windows + w);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) total[w][v] = Vector::multiplyAdd(window, filter[v], total[w][v]);
    }
    windows += windowStride;
    filters += kVectors * Vector::kLanes;
  }
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Vector::store(sums + w * kMostFilters + v * Vector::kLanes, total[w][v]);
  }
}

/** Finds the instantiation for `count` windows by counting down from the most. */
template <class Vector, int kWindows, int kVectors>
void multiplyCount(int64_t count, int64_t depth, const float* windows, int64_t windowStride, const float* filters,
                   float* sums) {
  if constexpr (kWindows > 1) {
    if (count < kWindows) {
      return multiplyCount<Vector, kWindows - 1, kVectors>(count, depth, windows, windowStride, filters, sums);
    }
  }
  multiplyTile<Vector, kWindows, kVectors>(depth, windows, windowStride, filters, sums);
}

/** Microkernel::multiply for panels of one or two vectors. */
template <class Vector, int kWindows>
void multiply(int64_t count, int64_t width, int64_t depth, const float* windows, int64_t windowStride,
              const float* filters, float* sums) {
  if (width == Vector::kLanes) {
    multiplyCount<Vector, kWindows, 1>(count, depth, windows, windowStride, filters, sums);
  } else {
    multiplyCount<Vector, kWindows, 2>(count, depth, windows, windowStride, filters, sums);
  }
}

}  // namespace warpconv::outer
