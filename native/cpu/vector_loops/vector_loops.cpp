#include "cpu/vector_loops/vector_loops.h"

namespace warpconv {

extern constinit const VectorLoops kVectorLoopsPortable;
#if defined(WARPCONV_X86_KERNELS)
extern constinit const VectorLoops kVectorLoopsAvx2;
extern constinit const VectorLoops kVectorLoopsAvx512;
#endif

const VectorLoops& vectorLoops([[maybe_unused]] Isa isa) {
#if defined(WARPCONV_X86_KERNELS)
  if (isa >= Isa::avx512) return kVectorLoopsAvx512;
  if (isa >= Isa::avx2) return kVectorLoopsAvx2;
#endif
  return kVectorLoopsPortable;
}

}  // namespace warpconv
