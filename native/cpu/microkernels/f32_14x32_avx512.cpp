// Compiled with -mavx512f: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include <immintrin.h>

#include "cpu/microkernels/lane_product.h"
#include "cpu/microkernels/outer_product.h"
#include "cpu/microkernels/vector_pack.h"
#include "cpu/microkernels/vector_store.h"
#include "cpu/vector/avx512.h"
#include "cpu/vector/elementary_avx512.h"

namespace warpconv {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  using Register = __m512;
  using Mask = __mmask16;
  using Columns = __m512i;
  using First = Mask;
  struct All {};

  static Register zero() { return _mm512_setzero_ps(); }
  static Register load(const float* from) { return _mm512_loadu_ps(from); }
  static Register load(Mask lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
  static Register load(All, const float* from) { return load(from); }
  static Register broadcast(const float* from) { return _mm512_set1_ps(*from); }
  static Register add(Register a, Register b) { return _mm512_add_ps(a, b); }
  static Register multiplyAdd(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  static Register multiplyNegative(Register x, Register factor) {
    return _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, zero(), _CMP_LT_OQ), x, factor);
  }
  // The second operand is what these return of two zeros or beside a NaN.
  static Register atLeast(Register x, Register low) { return _mm512_max_ps(low, x); }
  static Register atMost(Register x, Register high) { return _mm512_min_ps(high, x); }
  static Register sigmoid(Register x) { return warpconv::sigmoid(x); }
  static Register silu(Register x) { return warpconv::silu(x); }
  static Register hardSwish(Register x) { return warpconv::hardSwish(x); }
  static void store(float* to, Register value) { _mm512_storeu_ps(to, value); }
  static void store(float* to, First lanes, Register value) { _mm512_mask_storeu_ps(to, lanes, value); }
  static void store(float* to, All, Register value) { store(to, value); }
  static void storeWindows(float* to, First lanes, Register value) { store(to, lanes, value); }

  static First first(int64_t count) { return firstLanes(count); }
  static Mask lanes(int64_t begin, int64_t end) { return static_cast<Mask>(firstLanes(end) & ~firstLanes(begin)); }
  static Columns columns(int step) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_mullo_epi32(lanes, _mm512_set1_epi32(step));
  }
  static Columns ahead(Columns columns, int by) { return _mm512_add_epi32(columns, _mm512_set1_epi32(by)); }
  static Register pick(Register low, Register high, Columns columns) {
    return _mm512_permutex2var_ps(low, columns, high);
  }

  static Register even(Register a, Register b) { return pick(a, b, columns(2)); }
  static Register odd(Register a, Register b) { return pick(a, b, ahead(columns(2), 1)); }

  /** Turns 16 vectors of 16: element j of vector i goes to element i of vector j. */
  static void transpose(Register (&rows)[16]) {
    __m512 t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
      t[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    // In each group of four vectors: 128-bit quarter q of u[4g + k] holds column 4q + k of rows 4g to 4g + 3.
    __m512 u[16];
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m512d a = _mm512_castps_pd(t[4 * g]), b = _mm512_castps_pd(t[4 * g + 1]);
      const __m512d c = _mm512_castps_pd(t[4 * g + 2]), d = _mm512_castps_pd(t[4 * g + 3]);
      u[4 * g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
      u[4 * g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
      u[4 * g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
      u[4 * g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const __m512 low01 = _mm512_shuffle_f32x4(u[k], u[4 + k], 0x88),
                   high01 = _mm512_shuffle_f32x4(u[k], u[4 + k], 0xdd);
      const __m512 low23 = _mm512_shuffle_f32x4(u[8 + k], u[12 + k], 0x88);
      const __m512 high23 = _mm512_shuffle_f32x4(u[8 + k], u[12 + k], 0xdd);
      rows[k] = _mm512_shuffle_f32x4(low01, low23, 0x88);
      rows[4 + k] = _mm512_shuffle_f32x4(high01, high23, 0x88);
      rows[8 + k] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
      rows[12 + k] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
  }
};

}  // namespace

// 110e6: 220 GFLOP/s in most pointwise layers of bench/layers/sconv-393.json on one Zen 5 core.
extern const Microkernel kF32_14x32Avx512;
const Microkernel kF32_14x32Avx512{"f32_14x32_avx512",
                                   Isa::avx512,
                                   14,
                                   32,
                                   16,
                                   1,
                                   110e6,
                                   kTurnedStoreElements,
                                   vectors::pack<Avx512>,
                                   outer::multiply<Avx512, 14, 2>,
                                   vectors::store<Avx512>,
                                   outer::convolve<Avx512, 14, 2, vectors::store<Avx512>>,
                                   false,
                                   nullptr,
                                   vectors::turn<Avx512>};

// The same rate, where it is chosen: see prefersWindowsInLanes of sconv.
extern const Microkernel kF32_48x8Avx512;
const Microkernel kF32_48x8Avx512{"f32_48x8_avx512",
                                  Isa::avx512,
                                  48,
                                  8,
                                  8,
                                  16,
                                  110e6,
                                  kPlainStoreElements,
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  lanes::convolve<Avx512, 8, 3>,
                                  true,
                                  lanes::splitPairs<Avx512>};

}  // namespace warpconv
