#pragma once

#include "cuda/pointwise/fma/tile.h"
#include "cuda/pointwise/gemm_model.h"

namespace warpconv::cuda::pointwise {

/**
 * Fitted, with those of `tensor` at the time, to all their tiles and splits on the 15 pointwise layers of the bench at
 * batch 1 and 128, 1,416 times of an H200 by graph replay, with weight on the fastest and on choosing right; again,
 * once clusters were joined in less time, to 688 times at batch 1 and to what was predicted of the fastest at batch
 * 128.
 */
constexpr GemmModel FmaTile::defaultModel() {
  return {1.27, 13.2, 148, 0.0258e-6, 0.899e-6, 0.0263e-6, 11.4, 0.227e-6, 0.332e-6, 0.376, 0.098};
}

}  // namespace warpconv::cuda::pointwise
