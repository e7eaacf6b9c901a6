#include "cpu/vector_loops/loops.h"

namespace warpconv {
namespace {

/** Four floats by the compiler's own vectors: SSE2 on x86-64, NEON on arm64. */
struct Vector4 {
  static constexpr int kLanes = 4;
  typedef float Register __attribute__((vector_size(16)));
};

}  // namespace

extern constinit const VectorLoops kVectorLoopsPortable;
constinit const VectorLoops kVectorLoopsPortable = makeVectorLoops<Vector4>(Isa::portable);

}  // namespace warpconv
