#pragma once

// Only for files compiled with -mavx512f. Everything is local to the file that includes it, so that the linker cannot
// hand this code to a processor without AVX-512.
#include <immintrin.h>

#include <cstdint>

namespace warpconv {
namespace {

inline int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : (value > high ? high : value);
}

inline __mmask16 firstLanes(int64_t count) { return static_cast<__mmask16>((1u << clamp(count, 0, 16)) - 1u); }

/** Lanes i < count whose column first + i lies in [0, width). */
inline __mmask16 columnsInside(int64_t first, int64_t count, int64_t width) {
  return static_cast<__mmask16>(firstLanes(clamp(width - first, 0, count)) & ~firstLanes(-first));
}

}  // namespace
}  // namespace warpconv
