// Compiled with -mavx512f: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include "cpu/depthwise/depthwise_strips.h"
#include "cpu/vector/avx512.h"

namespace warpconv {
namespace {

/** For permutations: lane i of the result is lane first + i * step. */
__m512i every(int step, int first) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(step)), _mm512_set1_epi32(first));
}

struct Avx512 {
  static constexpr int kLanes = 16;
  using Register = __m512;
  using Lanes = __mmask16;

  static Lanes lanesInside(int64_t first, int64_t width, int64_t) { return columnsInside(first, kLanes, width); }
  static Register load(Lanes lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
  static void store(Lanes lanes, float* to, Register value) { _mm512_mask_storeu_ps(to, lanes, value); }
  static Register broadcast(const float* from, int64_t) { return _mm512_set1_ps(*from); }
  static Register add(Register a, Register b) { return _mm512_add_ps(a, b); }
  static Register multiply(Register a, Register b) { return _mm512_mul_ps(a, b); }
  static Register multiplyAdd(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  static Register max(Register a, Register b) { return _mm512_max_ps(a, b); }
  static Register min(Register a, Register b) { return _mm512_min_ps(a, b); }
  static Register even(Register a, Register b) { return _mm512_permutex2var_ps(a, every(2, 0), b); }
  static Register odd(Register a, Register b) { return _mm512_permutex2var_ps(a, every(2, 1), b); }

  template <int kTaps, int kStride>
  using Taps = strips::LoadedTaps<Avx512, kTaps, kStride>;
};

/**
 * Two maps side by side, 8 lanes each, for outputs of up to 8 columns from inputs of up to 16: a whole row of either is
 * loaded, and every tap permuted out of the two. In the layers 7 columns wide this gave 47 GFLOP/s with 3 x 3 filters
 * and 62 with 5 x 5, where a vector for each map gave 30 and 36 and AVX2 gave 26 and 39 (Zen 4).
 */
struct Avx512Pair : Avx512 {
  static constexpr int kLanes = 8;

  struct Lanes {
    __mmask16 first;
    __mmask16 second;
    /** From lane 8 of the first map, which it has not, to lane 0 of the second */
    int64_t apart;
  };

  static bool takes(const ConvProblem& x) {
    const bool isKnown = (x.r == 3 && x.s == 3) || (x.r == 5 && x.s == 5);
    return isKnown && x.q <= kLanes && x.w <= 2 * kLanes && x.stride.h == x.stride.w && x.stride.w <= 2 &&
           x.dilation.h == 1 && x.dilation.w == 1;
  }

  static Lanes lanesInside(int64_t first, int64_t width, int64_t apart) {
    const __mmask16 lanes = columnsInside(first, kLanes, width);
    return {lanes, static_cast<__mmask16>(lanes << kLanes), apart - kLanes};
  }
  static Register load(const Lanes& lanes, const float* from) {
    return _mm512_mask_loadu_ps(Avx512::load(lanes.first, from), lanes.second, from + lanes.apart);
  }
  static void store(const Lanes& lanes, float* to, Register value) {
    _mm512_mask_storeu_ps(to, lanes.first, value);
    _mm512_mask_storeu_ps(to + lanes.apart, lanes.second, value);
  }
  static Register broadcast(const float* from, int64_t apart) {
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(*from), kSecond, _mm_load_ss(from + apart));
  }

  template <int kTaps, int kStride>
  class Taps {
   public:
    Taps(int64_t column, int64_t width, int64_t apart)
        : column_(column), apart_(apart), row_(columnsInside(0, 2 * kLanes, width)) {
#pragma GCC unroll 8
      for (int s = 0; s < kTaps; ++s) {
        const int first = static_cast<int>(column) + s;
        const __m512i columns =
            _mm512_mask_mov_epi32(every(kStride, first), kSecond, every(kStride, first - kLanes * kStride));
        inside_[s] = _mm512_cmplt_epu32_mask(columns, _mm512_set1_epi32(static_cast<int>(width)));
        lane_[s] = _mm512_mask_add_epi32(columns, kSecond, columns, _mm512_set1_epi32(2 * kLanes));
      }
    }

    void load(const float* row, Register* taps) const {
      const Register first = Avx512::load(row_, row - column_);
      const Register second = Avx512::load(row_, row - column_ + apart_);
#pragma GCC unroll 8
      for (int s = 0; s < kTaps; ++s) taps[s] = _mm512_maskz_permutex2var_ps(inside_[s], first, lane_[s], second);
    }

   private:
    const int64_t column_;
    const int64_t apart_;
    const __mmask16 row_;
    __mmask16 inside_[kTaps];
    __m512i lane_[kTaps];
  };

 private:
  static constexpr __mmask16 kSecond = 0xFF00;
};

void convolve(const DepthwiseMaps& maps) {
  if (maps.count == 2) {
    strips::convolve<Avx512Pair>(maps);
  } else {
    strips::convolve<Avx512>(maps);
  }
}

}  // namespace

// 31e6: 63 GFLOP/s geometric over the depthwise layers of bench/layers/mobile.json on one Zen 4 core, whose peak is
// 118: 69 in 3 x 3 layers at stride 1, 74 in 5 x 5; at stride 2, 38 and 62.
extern const DepthwiseKernel kDepthwiseAvx512;
const DepthwiseKernel kDepthwiseAvx512{"f32_depthwise_avx512", Isa::avx512, 31e6, Avx512Pair::takes, convolve};

}  // namespace warpconv
