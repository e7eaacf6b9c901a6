#pragma once

#include <cstdint>
#include <utility>

#include "cpu/vector/pick_lanes.h"
#include "cpu/vector_loops/vector_loops.h"

/** WindowLoops over a function of two elements. Everything is local to the file that includes it, as elementary.h
 * explains. */
namespace warpconv {
namespace {

template <int kLanes>
struct LanesOf {
  typedef float Register __attribute__((vector_size(kLanes * sizeof(float))));
};
template <>
struct LanesOf<1> {
  using Register = float;
};

template <class Register>
Register loadVector(const float* from) {
  Register value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

/**
 * Calls body(i) for vectors of results that begin at i. What does not fill a vector at the end is done by one that
 * begins further up: there are at least kLanes.
 */
template <int kLanes, typename Body>
void forEachVector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i);
  if (i < count) body(count - kLanes);
}

/** In narrower vectors where there are too few columns. kRows is the number of rows if it is 3 or less, or else 0. */
template <typename Combine, int kLanes, int kRows>
void combineRowsOf(const WindowRows& rows, int64_t count, float* __restrict to) {
  using Register = typename LanesOf<kLanes>::Register;
  if constexpr (kLanes > 1) {
    if (count < kLanes) return combineRowsOf<Combine, kLanes / 2, kRows>(rows, count, to);
  }
  const Combine combine;
  const int64_t rowCount = kRows > 0 ? kRows : rows.count;
  forEachVector<kLanes>(count, [&](int64_t i) {
    const float* from = rows.first + i;
    Register result = loadVector<Register>(from);
#pragma GCC unroll 3
    for (int64_t row = 1; row < rowCount; ++row) {
      from += rows.stride;
      result = combine(result, loadVector<Register>(from));
    }
    __builtin_memcpy(to + i, &result, sizeof(result));
  });
}

template <typename Combine, int kLanes>
void combineRows(const WindowRows& rows, int64_t count, float* __restrict to) {
  switch (rows.count) {
    case 1: return combineRowsOf<Combine, kLanes, 1>(rows, count, to);
    case 2: return combineRowsOf<Combine, kLanes, 2>(rows, count, to);
    case 3: return combineRowsOf<Combine, kLanes, 3>(rows, count, to);
    default: return combineRowsOf<Combine, kLanes, 0>(rows, count, to);
  }
}

template <class Register, int... kIndex>
Register evenElements(const float* from, std::integer_sequence<int, kIndex...>) {
  return pickLanes<(2 * kIndex)...>(loadVector<Register>(from), loadVector<Register>(from + sizeof...(kIndex)));
}

/** from[0], from[kStride], …, where kStride is 1 or 2 */
template <int kLanes, int kStride>
typename LanesOf<kLanes>::Register loadEach(const float* from) {
  using Register = typename LanesOf<kLanes>::Register;
  if constexpr (kLanes > 1 && kStride == 2) {
    return evenElements<Register>(from, std::make_integer_sequence<int, kLanes>());
  } else {
    return loadVector<Register>(from);
  }
}

/** kTaps is the number of taps if it is 3 or less, or else 0. */
template <typename Combine, int kLanes, int kStride, int kTaps>
void combineTapsOf(const float* values, const WindowRow& window, int64_t count, float* __restrict to) {
  if constexpr (kLanes > 1) {
    if (count < kLanes) return combineTapsOf<Combine, kLanes / 2, kStride, kTaps>(values, window, count, to);
  }
  const Combine combine;
  const int64_t taps = kTaps > 0 ? kTaps : window.taps;
  forEachVector<kLanes>(count, [&](int64_t i) {
    const float* from = values + i * kStride;
    auto result = loadEach<kLanes, kStride>(from);
#pragma GCC unroll 3
    for (int64_t tap = 1; tap < taps; ++tap) {
      from += window.dilation;
      result = combine(result, loadEach<kLanes, kStride>(from));
    }
    __builtin_memcpy(to + i, &result, sizeof(result));
  });
}

template <typename Combine, int kLanes, int kStride>
void combineTaps(const float* values, const WindowRow& window, int64_t count, float* __restrict to) {
  switch (window.taps) {
    case 1: return combineTapsOf<Combine, kLanes, kStride, 1>(values, window, count, to);
    case 2: return combineTapsOf<Combine, kLanes, kStride, 2>(values, window, count, to);
    case 3: return combineTapsOf<Combine, kLanes, kStride, 3>(values, window, count, to);
    default: return combineTapsOf<Combine, kLanes, kStride, 0>(values, window, count, to);
  }
}

template <typename Combine, int kLanes>
void combineWindows(const float* values, const WindowRow& window, int64_t count, float* __restrict to) {
  if (window.stride == 1) return combineTaps<Combine, kLanes, 1>(values, window, count, to);
  if (window.stride == 2) return combineTaps<Combine, kLanes, 2>(values, window, count, to);
  const Combine combine;
  for (int64_t i = 0; i < count; ++i) {
    const float* first = values + i * window.stride;
    float result = first[0];
    for (int64_t tap = 1; tap < window.taps; ++tap) result = combine(result, first[tap * window.dilation]);
    to[i] = result;
  }
}

/** Of two floats, and of two vectors of them */
template <int kLanes, typename Combine>
constexpr WindowLoops windowLoopsOf(Combine) {
  return {combineRows<Combine, kLanes>, combineWindows<Combine, kLanes>};
}

}  // namespace
}  // namespace warpconv
