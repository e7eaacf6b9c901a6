#pragma once

#include "cuda/pointwise/gemm_model.h"

namespace warpconv::cuda::pointwise {

/** See fma/model.h. */
inline constexpr GemmModel kTensorModel{0.19, 33.8, 295, 0.0475e-6, 1.4e-6, 0.0287e-6, 26, 0, 0, 0.85, 0.351};

}  // namespace warpconv::cuda::pointwise
