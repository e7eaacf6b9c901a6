// Compiled with -mavx2 -mfma: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include <immintrin.h>

#include "cpu/winograd/transform_loops.h"

namespace warpconv::winograd {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  using Register = __m256;
  /** All ones in the lanes that count */
  using Lanes = __m256i;

  static Lanes lanesInside(int64_t first, int64_t width) {
    return _mm256_andnot_si256(lanesBefore(-first), lanesBefore(width - first));
  }
  static Register load(const float* from) { return _mm256_loadu_ps(from); }
  static Register load(Lanes lanes, const float* from) { return _mm256_maskload_ps(from, lanes); }
  static void store(float* to, Register value) { _mm256_storeu_ps(to, value); }
  static void storeFirst(float* to, int64_t, Register value) { store(to, value); }
  static Register even(Register a, Register b) { return inOrder(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))); }
  static Register odd(Register a, Register b) { return inOrder(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1))); }
  static Register next(Register a) { return _mm256_permutevar8x32_ps(a, _mm256_set_epi32(7, 7, 6, 5, 4, 3, 2, 1)); }

 private:
  static __m256i lanesBefore(int64_t count) {
    const int lanes = static_cast<int>(count < 0 ? 0 : (count > kLanes ? kLanes : count));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
  }
  /** shuffle_ps takes two lanes of a and two of b in each half; this brings those of a before those of b. */
  static Register inOrder(Register pairs) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), _MM_SHUFFLE(3, 1, 2, 0)));
  }
};

}  // namespace

extern constinit const Transforms kTransformsAvx2;
constinit const Transforms kTransformsAvx2 = makeTransforms<Avx2>(Isa::avx2);

}  // namespace warpconv::winograd
