#pragma once

#include "cuda/pointwise/arguments.h"
#include "cuda/pointwise/tiles.h"

namespace warpconv::cuda::pointwise {

using Kernel = void (*)(Arguments);

/** The kernel of a tile that is in kDynamicTiles. */
Kernel dynamicKernelOf(const DynamicTile& tile);

/** The kernel of a tile that is in kGemmTiles, for arguments that are `aligned` or for any. */
Kernel gemmKernelOf(const GemmTile& tile, bool aligned);

/** The same for a tile that is in kTensorTiles. */
Kernel tensorKernelOf(const TensorTile& tile, bool aligned);

/** The same for a tile that is in kStreamTiles, or in kStreamTensorTiles. */
Kernel streamKernelOf(const StreamTile& tile, bool aligned);
Kernel streamTensorKernelOf(const StreamTensorTile& tile, bool aligned);

/** The same for a tile that is in kWarpgroupTiles. */
Kernel warpgroupKernelOf(const WarpgroupTile& tile, bool aligned);

namespace detail {

// Its parts, for the compiler to work on side by side: null for the tiles of the others.
Kernel fewChannelsKernel(const DynamicTile& tile);
Kernel manyChannelsKernel(const DynamicTile& tile);
Kernel pixelsKernel(const DynamicTile& tile);

}  // namespace detail
}  // namespace warpconv::cuda::pointwise
