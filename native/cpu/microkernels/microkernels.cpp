#include "cpu/microkernels/microkernel.h"

namespace warpconv {

extern const Microkernel kF32_4x8Portable;
#if defined(WARPCONV_X86_KERNELS)
extern const Microkernel kF32_6x16Avx2;
extern const Microkernel kF32_14x32Avx512;
extern const Microkernel kF32_48x8Avx512;
#elif defined(WARPCONV_ARM64_KERNELS)
extern const Microkernel kF32_8x12Neon;
#endif

std::span<const Microkernel* const> microkernels() {
  static constexpr const Microkernel* kAll[] = {
    &kF32_4x8Portable,
#if defined(WARPCONV_X86_KERNELS)
    &kF32_6x16Avx2,
    &kF32_14x32Avx512,
#elif defined(WARPCONV_ARM64_KERNELS)
    &kF32_8x12Neon,
#endif
  };
  return kAll;
}

const Microkernel& widestMicrokernel(Isa isa) {
  const Microkernel* widest = microkernels().front();
  for (const Microkernel* kernel : microkernels()) {
    if (kernel->isa <= isa) widest = kernel;
  }
  return *widest;
}

const Microkernel* pointwiseMicrokernel([[maybe_unused]] Isa isa) {
#if defined(WARPCONV_X86_KERNELS)
  if (isa >= Isa::avx512) return &kF32_48x8Avx512;
#endif
  return nullptr;
}

}  // namespace warpconv
