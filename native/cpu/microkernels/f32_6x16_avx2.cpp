// Compiled with -mavx2 -mfma: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include <immintrin.h>

#include "cpu/microkernels/lane_product.h"
#include "cpu/microkernels/outer_product.h"
#include "cpu/microkernels/vector_pack.h"
#include "cpu/microkernels/vector_store.h"

namespace warpconv {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  using Register = __m256;
  /** All ones in the lanes that count */
  using Mask = __m256i;
  using Columns = __m256i;
  struct First {
    int count;
    Mask mask;
  };
  struct All {};

  static Register zero() { return _mm256_setzero_ps(); }
  static Register load(const float* from) { return _mm256_loadu_ps(from); }
  static Register load(Mask lanes, const float* from) { return _mm256_maskload_ps(from, lanes); }
  static Register broadcast(const float* from) { return _mm256_broadcast_ss(from); }
  static Register add(Register a, Register b) { return _mm256_add_ps(a, b); }
  static Register multiplyAdd(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static Register multiplyNegative(Register x, Register factor) {
    return _mm256_blendv_ps(x, _mm256_mul_ps(x, factor), _mm256_cmp_ps(x, zero(), _CMP_LT_OQ));
  }
  // The second operand is what these return of two zeros or beside a NaN.
  static Register atLeast(Register x, Register low) { return _mm256_max_ps(low, x); }
  static Register atMost(Register x, Register high) { return _mm256_min_ps(high, x); }
  static void store(float* to, Register value) { _mm256_storeu_ps(to, value); }
  static Register load(First lanes, const float* from) { return load(lanes.mask, from); }
  static Register load(All, const float* from) { return load(from); }
  static void store(float* to, All, Register value) { store(to, value); }
  /** In pieces: a masked store takes AMD's cores longer than the rest of a row. */
  static void store(float* to, First lanes, Register value) {
    if (lanes.count == kLanes) return store(to, value);
    __m128 rest = _mm256_castps256_ps128(value);
    if ((lanes.count & 4) != 0) {
      _mm_storeu_ps(to, rest);
      rest = _mm256_extractf128_ps(value, 1);
      to += 4;
    }
    if ((lanes.count & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
      rest = _mm_movehl_ps(rest, rest);
      to += 2;
    }
    if ((lanes.count & 1) != 0) _mm_store_ss(to, rest);
  }
  /** All lanes, since the next segment is written later and a packed row has room for 8 lanes after any window. */
  static void storeWindows(float* to, First, Register value) { store(to, value); }

  static First first(int64_t count) { return {clampToLanes(count), lanes(0, count)}; }
  static __m256i laneNumbers() { return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0); }
  static Mask lanes(int64_t begin, int64_t end) {
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(clampToLanes(begin)), laneNumbers()),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32(clampToLanes(end)), laneNumbers()));
  }
  static int clampToLanes(int64_t lane) { return lane < 0 ? 0 : (lane > kLanes ? kLanes : static_cast<int>(lane)); }

  static Columns columns(int step) { return _mm256_mullo_epi32(laneNumbers(), _mm256_set1_epi32(step)); }
  static Columns ahead(Columns columns, int by) { return _mm256_add_epi32(columns, _mm256_set1_epi32(by)); }
  static Register pick(Register low, Register high, Columns columns) {
    const Mask fromHigh = _mm256_cmpgt_epi32(columns, _mm256_set1_epi32(kLanes - 1));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, columns), _mm256_permutevar8x32_ps(high, columns),
                            _mm256_castsi256_ps(fromHigh));
  }

  static Register even(Register a, Register b) { return inOrder(_mm256_shuffle_ps(a, b, 0x88)); }
  static Register odd(Register a, Register b) { return inOrder(_mm256_shuffle_ps(a, b, 0xdd)); }
  /** Of pairs that a and b have in turns */
  static Register inOrder(Register x) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8)); }

  /** Turns 8 vectors of 8: element j of vector i goes to element i of vector j. */
  static void transpose(Register (&rows)[8]) {
    // In each group of four vectors: half q of u[4g + k] holds column 4q + k of rows 4g to 4g + 3.
    __m256 u[8];
#pragma GCC unroll 2
    for (int g = 0; g < 8; g += 4) {
      const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(rows[g], rows[g + 1]));
      const __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(rows[g], rows[g + 1]));
      const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(rows[g + 2], rows[g + 3]));
      const __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(rows[g + 2], rows[g + 3]));
      u[g] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
      u[g + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
      u[g + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
      u[g + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      rows[k] = _mm256_permute2f128_ps(u[k], u[4 + k], 0x20);
      rows[4 + k] = _mm256_permute2f128_ps(u[k], u[4 + k], 0x31);
    }
  }
};

}  // namespace

// 47e6: 94 GFLOP/s over the 393 layers of bench/layers/sconv-393.json on one Zen 4 core, whose peak is 115. The
// portable pack and store had 84.
extern const Microkernel kF32_6x16Avx2;
const Microkernel kF32_6x16Avx2{"f32_6x16_avx2",
                                Isa::avx2,
                                6,
                                16,
                                8,
                                1,
                                47e6,
                                kTurnedStoreElements,
                                vectors::pack<Avx2>,
                                outer::multiply<Avx2, 6, 2>,
                                vectors::store<Avx2>,
                                outer::convolve<Avx2, 6, 2, vectors::store<Avx2>>,
                                false,
                                nullptr,
                                vectors::turn<Avx2>};

// 38e6: 0.8 of the rate above, in pointwise layers of 240 to 528 channels on one Zen 5 core.
extern const Microkernel kF32_24x4Avx2;
const Microkernel kF32_24x4Avx2{"f32_24x4_avx2",
                                Isa::avx2,
                                24,
                                4,
                                4,
                                8,
                                38e6,
                                kPlainStoreElements,
                                nullptr,
                                nullptr,
                                nullptr,
                                lanes::convolve<Avx2, 4, 3>,
                                true,
                                lanes::splitPairs<Avx2>};

}  // namespace warpconv
