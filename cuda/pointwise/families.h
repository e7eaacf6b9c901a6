#pragma once

#include <variant>

#include "cuda/pointwise/dynamic/tile.h"
#include "cuda/pointwise/fma/model.h"
#include "cuda/pointwise/fma/tile.h"
#include "cuda/pointwise/rows/bf16_tile.h"
#include "cuda/pointwise/rows/fp16_tile.h"
#include "cuda/pointwise/rows/model.h"
#include "cuda/pointwise/rows/tf32_tile.h"
#include "cuda/pointwise/stream/model.h"
#include "cuda/pointwise/stream/tensor_tile.h"
#include "cuda/pointwise/stream/tile.h"
#include "cuda/pointwise/tensor/model.h"
#include "cuda/pointwise/tensor/tile.h"
#include "cuda/pointwise/warpgroup/model.h"
#include "cuda/pointwise/warpgroup/tile.h"

namespace warpconv::cuda::pointwise {

/** A list of families, each given by its type of tile (tile.h). */
template <typename... Tiles>
struct FamilyList {
  /** Calls use.operator()<Tile>() for each, in order. */
  static constexpr void forEach(auto&& use) { (use.template operator()<Tiles>(), ...); }

  /** A tile of the paper's scheme, or of any of these; nothing where the paper's blocking leads to no kernel. */
  using AnyTile = std::variant<std::monostate, DynamicTile, Tiles...>;
};

/**
 * All families but the paper's (dynamic/blocking.h), in the order in which their kernels are offered. On an H100 what
 * is chosen among all of them is 0.7 to 2.5 % slower than the fastest kernel on average on the 15 named layers at batch
 * 1, 4, 16 and 128, and 3.1 % on the 76 of `networks` at batch 4 and 16
 * (bench/results/nvidia-h100-80gb-hbm3-2026-11-28-kernel-families.md).
 */
using Families =
    FamilyList<FmaTile, StreamTile, TensorTile, StreamTensorTile, WarpgroupTile, RowsTile, Tf32RowsTile, Bf16RowsTile>;
using AnyTile = Families::AnyTile;

/** The constants of their predictions */
struct Models {
  GemmModel fma, tensor, streamTensor;
  StreamModel stream;
  WarpgroupModel warpgroup;
  RowsModel rows, tf32Rows, bf16Rows;
};

inline constexpr Models kModels{kFmaModel,       kTensorModel, kStreamTensorModel, kStreamModel,
                                kWarpgroupModel, kRowsModel,   kTf32RowsModel,     kBf16RowsModel};

}  // namespace warpconv::cuda::pointwise
