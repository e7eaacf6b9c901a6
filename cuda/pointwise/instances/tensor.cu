#include <utility>

#include "cuda/pointwise/kernels.h"
#include "cuda/pointwise/tensor_kernel.cuh"

namespace warpconv::cuda::pointwise {
namespace {

template <bool aligned, size_t... indices>
Kernel findTensorKernel(const TensorTile& wanted, std::index_sequence<indices...>) {
  Kernel found = nullptr;
  const auto consider = [&]<size_t index>() {
    if (kTensorTiles[index] == wanted) found = tensorKernel<static_cast<int>(index), aligned>;
  };
  (consider.template operator()<indices>(), ...);
  return found;
}

}  // namespace

Kernel tensorKernelOf(const TensorTile& tile, bool aligned) {
  constexpr auto indices = std::make_index_sequence<std::size(kTensorTiles)>();
  return aligned ? findTensorKernel<true>(tile, indices) : findTensorKernel<false>(tile, indices);
}

}  // namespace warpconv::cuda::pointwise
