// Compiled with -mavx512f: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include "cpu/vector/avx512.h"
#include "cpu/vector/elementary_avx512.h"
#include "cpu/vector_loops/loops.h"

namespace warpconv {
namespace {

struct Vector16 {
  static constexpr int kLanes = 16;
  typedef float Register __attribute__((vector_size(64)));
};

template <__m512 (*kFunction)(__m512)>
void loopOfVectors(const float* a, const float*, float* to, int64_t count, float, float) {
  for (; count >= Vector16::kLanes; a += Vector16::kLanes, to += Vector16::kLanes, count -= Vector16::kLanes) {
    _mm512_storeu_ps(to, kFunction(_mm512_loadu_ps(a)));
  }
  const __mmask16 rest = firstLanes(count);
  if (count > 0) _mm512_mask_storeu_ps(to, rest, kFunction(_mm512_maskz_loadu_ps(rest, a)));
}

constexpr VectorLoops loopsWithOwnFunctions() {
  VectorLoops loops = makeVectorLoops<Vector16>(Isa::avx512);
  loops.functions[static_cast<int>(Operation::sigmoid)] = loopOfVectors<sigmoid>;
  loops.functions[static_cast<int>(Operation::silu)] = loopOfVectors<silu>;
  loops.functions[static_cast<int>(Operation::hardSwish)] = loopOfVectors<hardSwish>;
  return loops;
}

}  // namespace

extern constinit const VectorLoops kVectorLoopsAvx512;
constinit const VectorLoops kVectorLoopsAvx512 = loopsWithOwnFunctions();

}  // namespace warpconv
