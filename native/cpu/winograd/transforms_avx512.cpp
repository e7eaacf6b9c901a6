// Compiled with -mavx512f: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include "cpu/vector/avx512.h"
#include "cpu/winograd/transform_loops.h"

namespace warpconv::winograd {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  using Register = __m512;
  using Lanes = __mmask16;

  static Lanes lanesInside(int64_t first, int64_t width) { return columnsInside(first, kLanes, width); }
  static Register load(const float* from) { return _mm512_loadu_ps(from); }
  static Register load(Lanes lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
  static void store(float* to, Register value) { _mm512_storeu_ps(to, value); }
  static void storeFirst(float* to, int64_t count, Register value) {
    _mm512_mask_storeu_ps(to, firstLanes(count), value);
  }
  static Register even(Register a, Register b) {
    const __m512i columns = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(a, columns, b);
  }
  static Register odd(Register a, Register b) {
    const __m512i columns = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_ps(a, columns, b);
  }
  static Register next(Register a) {
    return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(a), _mm512_castps_si512(a), 1));
  }
};

}  // namespace

extern constinit const Transforms kTransformsAvx512;
constinit const Transforms kTransformsAvx512 = makeTransforms<Avx512>(Isa::avx512);

}  // namespace warpconv::winograd
