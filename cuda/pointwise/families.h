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

/** The constants of a family's prediction. */
template <typename Tile>
struct ModelOf {
  typename Tile::Model model = Tile::defaultModel();
};

/** Of several families; models.of<Tile>() of one. */
template <typename... Tiles>
struct ModelsOf : ModelOf<Tiles>... {
  template <typename Tile>
  constexpr const typename Tile::Model& of() const {
    return static_cast<const ModelOf<Tile>&>(*this).model;
  }
  template <typename Tile>
  constexpr typename Tile::Model& of() {
    return static_cast<ModelOf<Tile>&>(*this).model;
  }
};

/** A list of families, each given by its type of tile (tile.h). */
template <typename... Tiles>
struct FamilyList {
  /** Calls use.operator()<Tile>() for each, in order. */
  static constexpr void forEach(auto&& use) { (use.template operator()<Tiles>(), ...); }

  /** A tile of the paper's scheme, or of any of these; nothing where the paper's blocking leads to no kernel. */
  using AnyTile = std::variant<std::monostate, DynamicTile, Tiles...>;
  using Models = ModelsOf<Tiles...>;
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

using Models = Families::Models;

}  // namespace warpconv::cuda::pointwise
