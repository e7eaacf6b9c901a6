#pragma once

#include <cstdint>

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

/**
 * What does not fill a vector at the end is done by one that begins further up, or by narrower ones. kRows is the
 * number of rows if it is 3 or less, or else 0.
 */
template <typename Combine, int kLanes, int kRows>
void combineRowsOf(const float* const* rows, int64_t rowCount, int64_t count, float* __restrict to) {
  using Register = typename LanesOf<kLanes>::Register;
  if constexpr (kLanes > 1) {
    if (count < kLanes) return combineRowsOf<Combine, kLanes / 2, kRows>(rows, rowCount, count, to);
  }
  const Combine combine;
  const auto loadAt = [](const float* from) {
    Register value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  };
  const float* const first = rows[0];
  const float* const second = rows[kRows > 1 ? 1 : 0];
  const float* const third = rows[kRows > 2 ? 2 : 0];
  const auto combineAt = [&](int64_t i) {
    Register result = loadAt(first + i);
    if constexpr (kRows > 1) result = combine(result, loadAt(second + i));
    if constexpr (kRows > 2) result = combine(result, loadAt(third + i));
    for (int64_t row = 1; kRows == 0 && row < rowCount; ++row) result = combine(result, loadAt(rows[row] + i));
    __builtin_memcpy(to + i, &result, sizeof(result));
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) combineAt(i);
  if (i < count) combineAt(count - kLanes);
}

template <typename Combine, int kLanes>
void combineRows(const float* const* rows, int64_t rowCount, int64_t count, float* __restrict to) {
  switch (rowCount) {
    case 1: return combineRowsOf<Combine, kLanes, 1>(rows, rowCount, count, to);
    case 2: return combineRowsOf<Combine, kLanes, 2>(rows, rowCount, count, to);
    case 3: return combineRowsOf<Combine, kLanes, 3>(rows, rowCount, count, to);
    default: return combineRowsOf<Combine, kLanes, 0>(rows, rowCount, count, to);
  }
}

/** With the stride known, so that the compiler shuffles the windows' elements out of whole vectors. */
template <typename Combine, int64_t kStride>
void combineTaps(const float* values, const WindowRow& window, int64_t count, float* __restrict to) {
  const Combine combine;
  const float* b = values + window.dilation;
  const float* c = b + window.dilation;
  if (window.taps == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = values[i * kStride];
  } else if (window.taps == 2) {
    for (int64_t i = 0; i < count; ++i) to[i] = combine(values[i * kStride], b[i * kStride]);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = combine(combine(values[i * kStride], b[i * kStride]), c[i * kStride]);
    }
  }
  for (int64_t tap = 3; tap < window.taps; ++tap) {
    const float* next = values + tap * window.dilation;
    for (int64_t i = 0; i < count; ++i) to[i] = combine(to[i], next[i * kStride]);
  }
}

template <typename Combine>
void combineWindows(const float* values, const WindowRow& window, int64_t count, float* __restrict to) {
  if (window.stride == 1) return combineTaps<Combine, 1>(values, window, count, to);
  if (window.stride == 2) return combineTaps<Combine, 2>(values, window, count, to);
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
  return {combineRows<Combine, kLanes>, combineWindows<Combine>};
}

}  // namespace
}  // namespace warpconv
