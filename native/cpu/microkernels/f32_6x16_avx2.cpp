// Compiled with -mavx2 -mfma: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include <immintrin.h>

#include "cpu/microkernels/outer_product.h"
#include "cpu/microkernels/portable.h"

namespace warpconv {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  using Register = __m256;

  static Register zero() { return _mm256_setzero_ps(); }
  static Register load(const float* from) { return _mm256_loadu_ps(from); }
  static Register broadcast(const float* from) { return _mm256_broadcast_ss(from); }
  static Register multiplyAdd(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static void store(float* to, Register value) { _mm256_storeu_ps(to, value); }
};

}  // namespace

// 47e6: 95 GFLOP/s over the 393 layers of bench/layers/sconv-393.json on one Zen 5 core.
extern const Microkernel kF32_6x16Avx2;
const Microkernel kF32_6x16Avx2{"f32_6x16_avx2",          Isa::avx2,      6, 16, 8, 47e6, portable::pack,
                                outer::multiply<Avx2, 6>, portable::store};

}  // namespace warpconv
