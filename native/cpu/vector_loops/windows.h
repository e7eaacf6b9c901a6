#pragma once

#include <cstdint>

#include "cpu/vector_loops/vector_loops.h"

/** WindowLoops over a function of two floats. Everything is local to the file that includes it, as elementary.h
 * explains. */
namespace warpconv {
namespace {

template <typename Combine>
void combineRows(const float* const* rows, int64_t rowCount, int64_t count, float* __restrict to) {
  const Combine combine;
  const float* a = rows[0];
  const float* b = rows[rowCount > 1 ? 1 : 0];
  const float* c = rows[rowCount > 2 ? 2 : 0];
  if (rowCount == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = a[i];
  } else if (rowCount == 2) {
    for (int64_t i = 0; i < count; ++i) to[i] = combine(a[i], b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = combine(combine(a[i], b[i]), c[i]);
  }
  for (int64_t row = 3; row < rowCount; ++row) {
    const float* next = rows[row];
    for (int64_t i = 0; i < count; ++i) to[i] = combine(to[i], next[i]);
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

template <typename Combine>
constexpr WindowLoops windowLoopsOf(Combine) {
  return {combineRows<Combine>, combineWindows<Combine>};
}

}  // namespace
}  // namespace warpconv
