#pragma once

// Only for files compiled with -mavx512f. Everything is local to the file that includes it, so that the linker cannot
// hand this code to a processor without AVX-512.
#include <immintrin.h>

#include <cstdint>

#include "problem/activation.h"

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

/** The activations that are comparisons and products. Comparisons fail for NaN, which falls through. */
inline __m512 activate(__m512 x, const Activation& activation) {
  const __m512 first = _mm512_set1_ps(activation.first);
  const __m512 second = _mm512_set1_ps(activation.second);
  const __m512 zero = _mm512_setzero_ps();
  switch (activation.kind) {
    case ActivationKind::relu: return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), zero);
    case ActivationKind::leakyRelu: return _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), first, x);
    case ActivationKind::clip: {
      const __m512 low = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, first, _CMP_LT_OQ), first);
      return _mm512_mask_mov_ps(low, _mm512_cmp_ps_mask(low, second, _CMP_GT_OQ), second);
    }
    default: return x;
  }
}

inline bool isVectorised(ActivationKind kind) {
  return kind == ActivationKind::none || kind == ActivationKind::relu || kind == ActivationKind::leakyRelu ||
         kind == ActivationKind::clip;
}

}  // namespace
}  // namespace warpconv
