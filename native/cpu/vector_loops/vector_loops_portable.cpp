#include "cpu/vector/vector4.h"
#include "cpu/vector_loops/loops.h"

namespace warpconv {

extern constinit const VectorLoops kVectorLoopsPortable;
constinit const VectorLoops kVectorLoopsPortable = makeVectorLoops<Vector4>(Isa::portable);

}  // namespace warpconv
