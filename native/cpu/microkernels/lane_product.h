#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"
#include "cpu/microkernels/vector_store.h"

/**
 * Microkernel::convolve and splitPairs of a lane microkernel, written once over a vector type and instantiated like the
 * outer product: windows lie in vector lanes and filters are broadcast, so that sums need not be turned on their way
 * out. The type has All, which says that every lane of a vector is loaded or stored.
 */
namespace warpconv::lanes {

/** Sums for kFilters filters and kVectors vectors of windows. */
template <class Vector, int kFilters, int kVectors>
using Totals = typename Vector::Register[kFilters][kVectors];

/** Stores a filter's sums; of the last vector, `last`. */
template <class Vector, int kVectors, class Last, class StoreRow>
[[gnu::always_inline]] inline void storeFilter(const typename Vector::Register (&sums)[kVectors], int64_t f, Last last,
                                               const StoreRow& storeRow) {
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVectors; ++v) storeRow(f, v * Vector::kLanes, typename Vector::All{}, sums[v]);
  storeRow(f, (kVectors - 1) * Vector::kLanes, last, sums[kVectors - 1]);
}

/** Stores totals[f][v] for the tile's filters. In line: totals that are passed by reference are in memory. */
template <class Vector, int kFilters, int kVectors, class Last, class StoreRow>
[[gnu::always_inline]] inline void storeTotals(const Totals<Vector, kFilters, kVectors>& totals, int64_t filters,
                                               Last last, const StoreRow& storeRow) {
  if constexpr (StoreRow::kFromMemory) {
    // A copy: totals that are indexed by a variable would be in memory from the first product on.
    Totals<Vector, kFilters, kVectors> sums;
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[f][v] = totals[f][v];
    }
    for (int64_t f = 0; f < filters; ++f) storeFilter<Vector>(sums[f], f, last, storeRow);
  } else {
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
      if (f == filters) return;
      storeFilter<Vector>(totals[f], f, last, storeRow);
    }
  }
}

/**
 * Brings a tile's outputs to the cache while it is multiplied, a row every few taps. All at once they would keep the
 * windows waiting for the few places for lines that are on their way: on one core of Emerald Rapids, from 64 to 256
 * channels of 56 x 56 with residuals 0.89 of the time, from 16 to 64 of 112 x 112 as much, from 128 to 512 of 28 x 28
 * with residuals 0.94.
 */
template <class Vector, int kVectors>
class OutputFetcher {
 public:
  [[gnu::always_inline]] OutputFetcher(const OutputRows& rows, int64_t taps)
      : rows_(rows),
        left_(rows.output == nullptr ? 0 : rows.count),
        skipped_(taps >= 4 * rows.count   ? 3
                 : taps >= 2 * rows.count ? 1
                                          : 0) {}

  [[gnu::always_inline]] void beforeTap(int64_t tap) {
    if (left_ == 0 || (tap & skipped_) != 0) return;
    --left_;
    fetch(rows_.output);
    rows_.output += rows_.stride;
    if (rows_.residual == nullptr) return;
    fetch(rows_.residual);
    rows_.residual += rows_.stride;
  }

 private:
  [[gnu::always_inline]] void fetch(const float* row) const {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(row + v * Vector::kLanes, 1);
    __builtin_prefetch(row + rows_.length - 1, 1);
  }

  OutputRows rows_;
  int64_t left_;
  /** Taps without a row after each with one; one less than a power of two */
  const int64_t skipped_;
};

/** Elements at one distance from each other. Nothing is loaded beyond the tile's last window. */
template <class Vector, int kVectors>
class EvenTaps {
 public:
  [[gnu::always_inline]] EvenTaps(const WindowView& view, int64_t inLast)
      : windows_(view.first), stride_(view.tapStride), ahead_(view.ahead), last_(Vector::first(inLast)) {}

  [[gnu::always_inline]] void load(int64_t, const float* filters, typename Vector::Register (&window)[kVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVectors; ++v) window[v] = Vector::load(windows_ + v * Vector::kLanes);
    window[kVectors - 1] = Vector::load(last_, windows_ + (kVectors - 1) * Vector::kLanes);
    // Of the next tile: channels are too many streams for the processor to foresee.
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(windows_ + (kVectors + v) * Vector::kLanes);
    __builtin_prefetch(filters + ahead_, 0, 2);
    windows_ += stride_;
  }

 private:
  const float* windows_;
  const int64_t stride_;
  const int64_t ahead_;
  const typename Vector::First last_;
};

/** Elements at the offsets of a list. Whole vectors may be loaded there: rows are long enough, and in the cache. */
template <class Vector, int kVectors>
class ListedTaps {
 public:
  [[gnu::always_inline]] ListedTaps(const WindowView& view, int64_t) : first_(view.first), offsets_(view.offsets) {}

  [[gnu::always_inline]] void load(int64_t tap, const float*, typename Vector::Register (&window)[kVectors]) {
    const float* windows = first_ + offsets_[tap];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) window[v] = Vector::load(windows + v * Vector::kLanes);
  }

 private:
  const float* first_;
  const int64_t* offsets_;
};

/** Up to kVectors vectors of windows, of which the last may be filled in part. */
template <template <class, int> class Taps, class Vector, int kFilters, int kVectors, class StoreRow>
void convolveTile(const OutputTile& tile, const WindowView& view, const float* filters, const StoreRow& storeRow) {
  Totals<Vector, kFilters, kVectors> total;
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[f][v] = Vector::zero();
  }
  const int64_t inLast = tile.windows - (kVectors - 1) * Vector::kLanes;
  Taps<Vector, kVectors> taps(view, inLast);
  OutputFetcher<Vector, kVectors> outputs(view.outputs, view.taps);
  for (int64_t e = 0; e < view.taps; ++e) {
    outputs.beforeTap(e);
    typename Vector::Register window[kVectors];
    taps.load(e, filters, window);
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
      const typename Vector::Register weight = Vector::broadcast(filters + f);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) total[f][v] = Vector::multiplyAdd(window[v], weight, total[f][v]);
    }
    filters += kFilters;
  }
  if (inLast == Vector::kLanes) {
    storeTotals<Vector, kFilters, kVectors>(total, tile.filters, typename Vector::All{}, storeRow);
  } else {
    storeTotals<Vector, kFilters, kVectors>(total, tile.filters, Vector::first(inLast), storeRow);
  }
}

/** Finds the instantiation for the tile's windows by counting down from the most. */
template <template <class, int> class Taps, class Vector, int kFilters, int kVectors, class StoreRow>
void convolveVectors(const OutputTile& tile, const WindowView& view, const float* filters, const StoreRow& storeRow) {
  if constexpr (kVectors > 1) {
    if (tile.windows <= (kVectors - 1) * Vector::kLanes) {
      return convolveVectors<Taps, Vector, kFilters, kVectors - 1>(tile, view, filters, storeRow);
    }
  }
  convolveTile<Taps, Vector, kFilters, kVectors>(tile, view, filters, storeRow);
}

/** Microkernel::splitPairs. The type has even and odd of two vectors. */
template <class Vector>
void splitPairs(const float* from, int64_t count, float* even, float* odd) {
  int64_t i = 0;
  for (; i + Vector::kLanes <= count; i += Vector::kLanes) {
    const typename Vector::Register low = Vector::load(from + 2 * i);
    const typename Vector::Register high = Vector::load(from + 2 * i + Vector::kLanes);
    Vector::store(even + i, Vector::even(low, high));
    Vector::store(odd + i, Vector::odd(low, high));
  }
  for (; i < count; ++i) even[i] = from[2 * i], odd[i] = from[2 * i + 1];
}

/** For panels of kFilters filters. */
template <class Vector, int kFilters, int kVectors>
void convolve(const OutputTile& tile, int64_t, const WindowView& view, const float* filters) {
  vectors::withActivation<Vector>(tile.finish == nullptr ? Activation{} : tile.finish->activation, [&](auto activate) {
    const vectors::RowStore<Vector, decltype(activate)> storeRow(tile, activate);
    if (view.offsets == nullptr) {
      convolveVectors<EvenTaps, Vector, kFilters, kVectors>(tile, view, filters, storeRow);
    } else {
      convolveVectors<ListedTaps, Vector, kFilters, kVectors>(tile, view, filters, storeRow);
    }
  });
}

}  // namespace warpconv::lanes
