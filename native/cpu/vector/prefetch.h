#pragma once

#include <cstdint>

namespace warpconv {

/** Begins to bring `count` adjacent elements of each of `rows` maps to the cache. */
inline void prefetchRows(const float* first, int64_t count, int64_t rows, int64_t rowStride) {
  constexpr int64_t kLine = 16;
  for (int64_t row = 0; row < rows; ++row, first += rowStride) {
    for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(first + i, 1);
    __builtin_prefetch(first + count - 1, 1);
  }
}

/**
 * Brings `bytes` to the cache by reading a byte of each line, in order: the processor foresees that, and goes on from
 * page to page, as it does not with prefetches.
 */
inline void readThrough(const void* first, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const auto* bytesRead = static_cast<const volatile char*>(first);
  for (int64_t i = 0; i < bytes; i += kLine) (void)bytesRead[i];
}

}  // namespace warpconv
