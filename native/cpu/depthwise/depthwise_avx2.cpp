// Compiled with -mavx2 -mfma: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include <immintrin.h>

#include "cpu/depthwise/depthwise_strips.h"

namespace warpconv {
namespace {

/** Lanes i < count. */
__m256i firstLanes(int64_t count) {
  const int lanes = static_cast<int>(count < 0 ? 0 : (count > 8 ? 8 : count));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

struct Avx2 {
  static constexpr int kLanes = 8;
  using Register = __m256;
  using Lanes = __m256i;

  static Lanes lanesInside(int64_t first, int64_t width, int64_t) {
    return _mm256_andnot_si256(firstLanes(-first), firstLanes(width - first));
  }
  static Register load(Lanes lanes, const float* from) { return _mm256_maskload_ps(from, lanes); }

  /** Part of a vector goes by four, two and one: maskstore takes 13 cycles on Zen 4, an ordinary store one. */
  static void store(Lanes lanes, float* to, Register value) {
    const int count = __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes))));
    if (count == kLanes) return _mm256_storeu_ps(to, value);
    __m128 rest = _mm256_castps256_ps128(value);
    if ((count & 4) != 0) {
      _mm_storeu_ps(to, rest);
      rest = _mm256_extractf128_ps(value, 1);
      to += 4;
    }
    if ((count & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
      rest = _mm_movehl_ps(rest, rest);
      to += 2;
    }
    if ((count & 1) != 0) _mm_store_ss(to, rest);
  }

  static Register broadcast(const float* from, int64_t) { return _mm256_broadcast_ss(from); }
  static Register add(Register a, Register b) { return _mm256_add_ps(a, b); }
  static Register multiply(Register a, Register b) { return _mm256_mul_ps(a, b); }
  static Register multiplyAdd(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static Register max(Register a, Register b) { return _mm256_max_ps(a, b); }
  static Register min(Register a, Register b) { return _mm256_min_ps(a, b); }
  static Register even(Register a, Register b) { return inOrder(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))); }
  static Register odd(Register a, Register b) { return inOrder(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1))); }

  template <int kTaps, int kStride>
  using Taps = strips::LoadedTaps<Avx2, kTaps, kStride>;

 private:
  /** shuffle_ps takes two lanes of a and two of b in each half; this brings those of a before those of b. */
  static Register inOrder(Register pairs) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), _MM_SHUFFLE(3, 1, 2, 0)));
  }
};

}  // namespace

// 19e6: 38 GFLOP/s geometric over the depthwise layers of bench/layers/mobile.json on one Zen 4 core.
extern const DepthwiseKernel kDepthwiseAvx2;
const DepthwiseKernel kDepthwiseAvx2{"f32_depthwise_avx2", Isa::avx2, 19e6, nullptr, strips::convolve<Avx2>};

}  // namespace warpconv
