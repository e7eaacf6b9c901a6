#include <arm_neon.h>

#include <algorithm>

#include "cpu/microkernels/lane_product.h"
#include "cpu/microkernels/outer_product.h"
#include "cpu/microkernels/portable.h"
#include "cpu/microkernels/vector_store.h"

namespace warpconv {
namespace {

struct Neon {
  static constexpr int kLanes = 4;
  using Register = float32x4_t;
  /** How many */
  using First = int;
  struct All {};

  static Register zero() { return vdupq_n_f32(0); }
  static Register load(const float* from) { return vld1q_f32(from); }
  static Register load(First lanes, const float* from) {
    if (lanes == kLanes) return load(from);
    float values[kLanes] = {};
    std::copy_n(from, lanes, values);
    return load(values);
  }
  static Register load(All, const float* from) { return load(from); }
  static void store(float* to, All, Register value) { store(to, value); }
  static Register broadcast(const float* from) { return vdupq_n_f32(*from); }
  static Register add(Register a, Register b) { return vaddq_f32(a, b); }
  static Register multiplyAdd(Register a, Register b, Register c) { return vfmaq_f32(c, a, b); }
  static Register multiplyNegative(Register x, Register factor) {
    return vbslq_f32(vcltzq_f32(x), vmulq_f32(x, factor), x);
  }
  /** Both instructions return NaN where an operand is one. */
  static Register atLeast(Register x, Register low) { return vmaxq_f32(low, x); }
  static Register atMost(Register x, Register high) { return vminq_f32(high, x); }
  static void store(float* to, Register value) { vst1q_f32(to, value); }
  static void store(float* to, First lanes, Register value) {
    if (lanes == kLanes) return store(to, value);
    float values[kLanes];
    store(values, value);
    std::copy_n(values, lanes, to);
  }
  static First first(int64_t count) { return static_cast<First>(std::min<int64_t>(count, kLanes)); }

  static Register even(Register a, Register b) { return vuzp1q_f32(a, b); }
  static Register odd(Register a, Register b) { return vuzp2q_f32(a, b); }

  /** Turns 4 vectors of 4: element j of vector i goes to element i of vector j. */
  static void transpose(Register (&rows)[4]) {
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(rows[0], rows[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(rows[0], rows[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(rows[2], rows[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(rows[2], rows[3]));
    rows[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    rows[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    rows[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    rows[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
  }
};

}  // namespace

// 22e6 is not measured: the portable kernel's 16.5e6 on x86-64, times 17.5/8 : 39/24. On arm64 the inner loops of the
// portable tile are 17 or 18 instructions for 8 multiply-adds and those of this tile 39 for 24 (GCC 12). A tile of
// 6 x 16 would take 37, but leaves rows of 7 and 14 outputs to be packed window by window.
extern const Microkernel kF32_8x12Neon;
const Microkernel kF32_8x12Neon{"f32_8x12_neon",
                                Isa::neon,
                                8,
                                12,
                                4,
                                1,
                                16.5e6,
                                kTurnedStoreElements,
                                portable::pack,
                                outer::multiply<Neon, 8, 3>,
                                vectors::store<Neon>,
                                outer::convolve<Neon, 8, 3, vectors::store<Neon>>};

// The rate is not measured.
extern const Microkernel kF32_12x8Neon;
const Microkernel kF32_12x8Neon{"f32_12x8_neon",
                                Isa::neon,
                                12,
                                8,
                                8,
                                4,
                                16.5e6,
                                kPlainStoreElements,
                                nullptr,
                                nullptr,
                                nullptr,
                                lanes::convolve<Neon, 8, 3>,
                                true,
                                lanes::splitPairs<Neon>};

}  // namespace warpconv
