#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"

/**
 * The outer product, written once over a vector type. Each instruction set's file instantiates it with a type of its
 * own, and nothing here is shared between instantiations, so that no code of a wider instruction set can be linked into
 * a narrower one. A vector type has `kLanes`, `Register`, and static zero, load, broadcast, multiplyAdd and store.
 */
namespace warpconv::outer {

template <class Vector, int kWindows, int kVectors, int kStep>
void multiplyTile(const WindowView& view, const float* filters, float* sums) {
  typename Vector::Register total[kWindows][kVectors];
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[w][v] = Vector::zero();
  }
  for (int64_t c = 0; c < view.channels; ++c) {
    for (int64_t r = 0; r < view.rows; ++r) {
      const float* windows = view.data + c * view.channelStride + r * view.rowStride;
      for (int64_t s = 0; s < view.taps; ++s) {
        typename Vector::Register filter[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) filter[v] = Vector::load(filters + v * Vector::kLanes);
#pragma GCC unroll 16
        for (int w = 0; w < kWindows; ++w) {
          const typename Vector::Register window = Vector::broadcast(windows + w * kStep);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) total[w][v] = Vector::multiplyAdd(window, filter[v], total[w][v]);
        }
        windows += view.tapStride;
        filters += kVectors * Vector::kLanes;
      }
    }
  }
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Vector::store(sums + w * kMostFilters + v * Vector::kLanes, total[w][v]);
  }
}

/** Finds the instantiation for `count` windows by counting down from the most. */
template <class Vector, int kWindows, int kVectors, int kStep>
void multiplyCount(int64_t count, const WindowView& view, const float* filters, float* sums) {
  if constexpr (kWindows > 1) {
    if (count < kWindows) return multiplyCount<Vector, kWindows - 1, kVectors, kStep>(count, view, filters, sums);
  }
  multiplyTile<Vector, kWindows, kVectors, kStep>(view, filters, sums);
}

template <class Vector, int kWindows, int kStep>
void multiplyWidth(int64_t count, int64_t width, const WindowView& view, const float* filters, float* sums) {
  if (width == Vector::kLanes) {
    multiplyCount<Vector, kWindows, 1, kStep>(count, view, filters, sums);
  } else {
    multiplyCount<Vector, kWindows, 2, kStep>(count, view, filters, sums);
  }
}

/** Microkernel::multiply for panels of one or two vectors. */
template <class Vector, int kWindows>
void multiply(int64_t count, int64_t width, const WindowView& view, const float* filters, float* sums) {
  if (view.step == 1) {
    multiplyWidth<Vector, kWindows, 1>(count, width, view, filters, sums);
  } else {
    multiplyWidth<Vector, kWindows, 2>(count, width, view, filters, sums);
  }
}

}  // namespace warpconv::outer
