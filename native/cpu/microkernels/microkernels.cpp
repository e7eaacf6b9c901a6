#include "cpu/microkernels/microkernel.h"

namespace warpconv {

extern const Microkernel kF32_4x8Portable;
extern const Microkernel kF32_12x4Portable;
#if defined(WARPCONV_X86_KERNELS)
extern const Microkernel kF32_6x16Avx2;
extern const Microkernel kF32_24x4Avx2;
extern const Microkernel kF32_14x32Avx512;
extern const Microkernel kF32_48x8Avx512;
#elif defined(WARPCONV_ARM64_KERNELS)
extern const Microkernel kF32_8x12Neon;
extern const Microkernel kF32_12x8Neon;
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

namespace {

const Microkernel& widestOf(std::span<const Microkernel* const> kernels, Isa isa) {
  const Microkernel* widest = kernels.front();
  for (const Microkernel* kernel : kernels) {
    if (kernel->isa <= isa) widest = kernel;
  }
  return *widest;
}

}  // namespace

std::span<const Microkernel* const> laneMicrokernels() {
  static constexpr const Microkernel* kAll[] = {
    &kF32_12x4Portable,
#if defined(WARPCONV_X86_KERNELS)
    &kF32_24x4Avx2,
    &kF32_48x8Avx512,
#elif defined(WARPCONV_ARM64_KERNELS)
    &kF32_12x8Neon,
#endif
  };
  return kAll;
}

const Microkernel& widestMicrokernel(Isa isa) { return widestOf(microkernels(), isa); }

const Microkernel& laneMicrokernel(Isa isa) { return widestOf(laneMicrokernels(), isa); }

}  // namespace warpconv
