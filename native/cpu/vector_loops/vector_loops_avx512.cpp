// Compiled with -mavx512f: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include "cpu/vector_loops/loops.h"

namespace warpconv {
namespace {

struct Vector16 {
  static constexpr int kLanes = 16;
  typedef float Register __attribute__((vector_size(64)));
};

}  // namespace

extern constinit const VectorLoops kVectorLoopsAvx512;
constinit const VectorLoops kVectorLoopsAvx512 = makeVectorLoops<Vector16>(Isa::avx512);

}  // namespace warpconv
