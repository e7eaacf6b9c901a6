#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"

/**
 * The outer product, written once over a vector type. Each instruction set's file instantiates it with a type of its
 * own, and nothing here is shared between instantiations, so that no code of a wider instruction set can be linked into
 * a narrower one. A vector type has `kLanes`, `Register`, and static zero, load, broadcast, multiplyAdd and store.
 */
namespace warpconv::outer {

/** The windows that have a filter row inside the input, in bits. */
template <class Vector, int kWindows>
uint32_t windowsWithRow(const PaddedWindows& padded, int64_t row) {
  constexpr uint32_t kFirst = (1u << kWindows / 2) - 1;
  constexpr uint32_t kSecond = ((1u << kWindows) - 1) & ~kFirst;
  // By sign bits, because comparisons make GCC write the loop over rows three times.
  const auto beforeFirst = static_cast<uint32_t>((row - padded.firstRow) >> 63);
  const auto beforeEnd = static_cast<uint32_t>((row - padded.endRow) >> 63);
  return (kFirst & ~beforeFirst) | (kSecond & beforeEnd);
}

template <class Vector, int kWindows, int kVectors, int kStep, bool kPadded>
void multiplyTile(const WindowView& view, const float* filters, float* sums) {
  typename Vector::Register total[kWindows][kVectors];
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[w][v] = Vector::zero();
  }
  for (int64_t c = 0; c < view.channels; ++c) {
    const float* filter = filters + (view.firstElement + c * view.filterElements) * kVectors * Vector::kLanes;
    for (int64_t r = 0; r < view.rows; ++r) {
      const int64_t row = c * view.channelStride + r * view.rowStride;
      const float* first = view.first + row;
      const float* second = view.second + row;
      [[maybe_unused]] uint32_t withRow = 0;
      if constexpr (kPadded) withRow = windowsWithRow<Vector, kWindows>(view.padded, r);
      for (int64_t s = 0; s < view.taps; ++s) {
        [[maybe_unused]] uint32_t inside = 0;
        if constexpr (kPadded) inside = withRow & view.padded.columns[s];
        typename Vector::Register weight[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) weight[v] = Vector::load(filter + v * Vector::kLanes);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) __builtin_prefetch(filter + view.ahead + v * Vector::kLanes, 0, 2);
#pragma GCC unroll 16
        for (int w = 0; w < kWindows; ++w) {
          if constexpr (kPadded) {
            if ((inside & (1u << w)) == 0) continue;
          }
          const float* at = w < kWindows / 2 ? first + w * kStep : second + (w - kWindows / 2) * kStep;
          const typename Vector::Register window = Vector::broadcast(at);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) total[w][v] = Vector::multiplyAdd(window, weight[v], total[w][v]);
        }
        first += view.tapStride;
        second += view.tapStride;
        filter += kVectors * Vector::kLanes;
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
template <class Vector, int kWindows, int kVectors, int kStep, bool kPadded>
void multiplyCount(int64_t count, const WindowView& view, const float* filters, float* sums) {
  if constexpr (kWindows > 1) {
    if (count < kWindows)
      return multiplyCount<Vector, kWindows - 1, kVectors, kStep, kPadded>(count, view, filters, sums);
  }
  multiplyTile<Vector, kWindows, kVectors, kStep, kPadded>(view, filters, sums);
}

/** Likewise for panels of `width` filters. */
template <class Vector, int kWindows, int kVectors, int kStep, bool kPadded>
void multiplyWidth(int64_t count, int64_t width, const WindowView& view, const float* filters, float* sums) {
  if constexpr (kVectors > 1) {
    if (width < kVectors * Vector::kLanes) {
      return multiplyWidth<Vector, kWindows, kVectors - 1, kStep, kPadded>(count, width, view, filters, sums);
    }
  }
  multiplyCount<Vector, kWindows, kVectors, kStep, kPadded>(count, view, filters, sums);
}

template <class Vector, int kWindows, int kVectors, int kStep>
void multiplyPadded(int64_t count, int64_t width, const WindowView& view, const float* filters, float* sums) {
  if (view.padded.columns == nullptr) {
    multiplyWidth<Vector, kWindows, kVectors, kStep, false>(count, width, view, filters, sums);
  } else {
    multiplyWidth<Vector, kWindows, kVectors, kStep, true>(count, width, view, filters, sums);
  }
}

/** Microkernel::multiply for tiles of at most kWindows windows and kVectors vectors of filters. */
template <class Vector, int kWindows, int kVectors>
void multiply(int64_t count, int64_t width, const WindowView& view, const float* filters, float* sums) {
  if (view.step == 1) {
    multiplyPadded<Vector, kWindows, kVectors, 1>(count, width, view, filters, sums);
  } else {
    multiplyPadded<Vector, kWindows, kVectors, 2>(count, width, view, filters, sums);
  }
}

/** Microkernel::convolve by `multiply` and `kStore`. */
template <class Vector, int kWindows, int kVectors, void (*kStore)(const OutputTile& tile, const float* sums)>
void convolve(const OutputTile& tile, int64_t width, const WindowView& view, const float* filters) {
  alignas(64) float sums[kPackedWindows * kMostFilters];
  multiply<Vector, kWindows, kVectors>(tile.windows, width, view, filters, sums);
  kStore(tile, sums);
}

}  // namespace warpconv::outer
