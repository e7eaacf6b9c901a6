#include "cpu/winograd/transforms.h"

namespace warpconv::winograd {

extern constinit const Transforms kTransformsPortable;
#if defined(WARPCONV_X86_KERNELS)
extern constinit const Transforms kTransformsAvx2;
extern constinit const Transforms kTransformsAvx512;
#endif

const Transforms& transforms([[maybe_unused]] Isa isa) {
#if defined(WARPCONV_X86_KERNELS)
  if (isa >= Isa::avx512) return kTransformsAvx512;
  if (isa >= Isa::avx2) return kTransformsAvx2;
#endif
  return kTransformsPortable;
}

}  // namespace warpconv::winograd
