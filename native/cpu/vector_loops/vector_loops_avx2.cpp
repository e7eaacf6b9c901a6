// Compiled with -mavx2 -mfma: nothing inline of the standard library may be used here, since the linker might keep this
// file's copy of it for the whole program.
#include "cpu/vector_loops/loops.h"

namespace warpconv {
namespace {

struct Vector8 {
  static constexpr int kLanes = 8;
  typedef float Register __attribute__((vector_size(32)));
};

}  // namespace

extern constinit const VectorLoops kVectorLoopsAvx2;
constinit const VectorLoops kVectorLoopsAvx2 = makeVectorLoops<Vector8>(Isa::avx2);

}  // namespace warpconv
