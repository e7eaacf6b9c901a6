#include <array>
#include <utility>

#include "cuda/implicit/kernels.cuh"

namespace warpconv::cuda::implicit {
namespace {

template <typename Element, int kIndex>
constexpr Kernel singleKernel() {
  if constexpr (kTiles[kIndex].tile.canBeSingle()) return implicitKernel<Element, kIndex, false>;
  return nullptr;
}

struct Kernels {
  Kernel single, persistent;
};

template <typename Element>
constexpr auto kKernels = []<int... kIndices>(std::integer_sequence<int, kIndices...>) {
  return std::array<Kernels, kTileCount>{
      Kernels{singleKernel<Element, kIndices>(), implicitKernel<Element, kIndices, true>}...};
}
(std::make_integer_sequence<int, kTileCount>());

}  // namespace

Kernel kernelOf(int tile, FloatType type, bool persists) {
  const Kernels& kernels = type == FloatType::float16    ? kKernels<Fp16>[tile]
                           : type == FloatType::bfloat16 ? kKernels<Bf16>[tile]
                                                         : kKernels<Tf32>[tile];
  return persists ? kernels.persistent : kernels.single;
}

}  // namespace warpconv::cuda::implicit
