#pragma once

#include "cuda/pointwise/arguments.h"
#include "cuda/pointwise/tiles.h"

namespace warpconv::cuda::pointwise {

using Kernel = void (*)(Arguments);

/** The kernel of a tile that is in kDynamicTiles. */
Kernel dynamicKernelOf(const DynamicTile& tile);

/** What is known of a kernel's arguments. Without, it takes any. */
struct Given {
  /** Arguments::aligned */
  bool aligned;
  /**
   * isBounded. Where a kernel is of a few microseconds it is better off without the instructions for what else may be,
   * although it skips them: the more there are of them, the longer it waits for its own.
   */
  bool bounded;
};

/** The kernel of a tile that is in kGemmTiles, which is the same whether bounded. */
Kernel gemmKernelOf(const GemmTile& tile, const Given& given);

/** The same for a tile that is in kTensorTiles. */
Kernel tensorKernelOf(const TensorTile& tile, const Given& given);

/** Of a tile that is in kStreamTiles, or in kStreamTensorTiles. */
Kernel streamKernelOf(const StreamTile& tile, const Given& given);
Kernel streamTensorKernelOf(const StreamTensorTile& tile, const Given& given);

/**
 * Of a tile that is in one of the lists of these, and so many blocks of a cluster: 1, 2, 4 or 8. `isPair`: as
 * WarpgroupTile::isPair says of the block's channels.
 */
Kernel warpgroupKernelOf(const WarpgroupTile& tile, int split, bool isPair, const Given& given);
Kernel rowsKernelOf(const RowsTile& tile, int split, const Given& given);
Kernel tf32RowsKernelOf(const Tf32RowsTile& tile, int split, const Given& given);

/** The same for a tile that is in kBf16RowsTiles, whose blocks share no channels. */
Kernel bf16RowsKernelOf(const Bf16RowsTile& tile, const Given& given);

namespace detail {

// Its parts, for the compiler to work on side by side: null for the tiles of the others.
Kernel fewChannelsKernel(const DynamicTile& tile);
Kernel manyChannelsKernel(const DynamicTile& tile);
Kernel pixelsKernel(const DynamicTile& tile);

}  // namespace detail
}  // namespace warpconv::cuda::pointwise
