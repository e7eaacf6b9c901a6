#pragma once

// Only for files compiled with -mavx512f.
#include <immintrin.h>

#include "cpu/vector/elementary.h"

/**
 * The activations of elementary.h in AVX-512's own instructions, which scale by powers of two and take the smaller of
 * two in one step each where vector code of the plain functions takes eight and three. Errors counted as there: sigmoid
 * 2.31, silu 3.10. Everything is local to the file that includes it.
 */
namespace warpconv {
namespace {

/** e^-|x| */
inline __m512 exponentialOfMinusMagnitude(__m512 x) {
  // Of NaN the smaller one is the second operand; from 105 on the result rounds to 0.
  const __m512 magnitude = _mm512_min_ps(_mm512_set1_ps(105.0f), _mm512_abs_ps(x));
  const __m512 exponent = _mm512_roundscale_ps(_mm512_mul_ps(magnitude, _mm512_set1_ps(-0x1.715476p0f)),
                                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 high = _mm512_fnmsub_ps(exponent, _mm512_set1_ps(kLn2High), magnitude);
  const __m512 r = _mm512_fnmadd_ps(exponent, _mm512_set1_ps(kLn2Low), high);
  // As in splitPower.
  __m512 tail = _mm512_set1_ps(0.0013820742f);
  tail = _mm512_fmadd_ps(tail, r, _mm512_set1_ps(0.00836924836f));
  tail = _mm512_fmadd_ps(tail, r, _mm512_set1_ps(0.041668281f));
  tail = _mm512_fmadd_ps(tail, r, _mm512_set1_ps(0.166665167f));
  tail = _mm512_fmadd_ps(tail, r, _mm512_set1_ps(0.49999994f));
  const __m512 one = _mm512_set1_ps(1.0f);
  return _mm512_scalef_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(tail, r, one), r, one), exponent);
}

inline __m512 sigmoid(__m512 x) {
  const __m512 power = exponentialOfMinusMagnitude(x);
  const __m512 one = _mm512_set1_ps(1.0f);
  const __mmask16 isNegative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_div_ps(_mm512_mask_mov_ps(one, isNegative, power), _mm512_add_ps(one, power));
}

inline __m512 silu(__m512 x) { return _mm512_mul_ps(x, sigmoid(x)); }

inline __m512 hardSwish(__m512 x) {
  const __m512 raised = _mm512_max_ps(_mm512_setzero_ps(), _mm512_add_ps(x, _mm512_set1_ps(3.0f)));
  const __m512 six = _mm512_set1_ps(6.0f);
  return _mm512_mul_ps(x, _mm512_div_ps(_mm512_min_ps(six, raised), six));
}

}  // namespace
}  // namespace warpconv
