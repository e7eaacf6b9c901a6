#pragma once

#include <cstdint>

#include "cpu/winograd/tiling.h"

namespace warpconv::winograd {

/** Where the inputs of a group of tiles lie. */
struct TileInputs {
  const ConvProblem* problem;
  const TileGroup* group;
  /** First of `channels` input maps of H x W */
  const float* maps;
  int64_t channels;
  /** From one component of what becomes of them to the next */
  int64_t componentFloats;
};

/** Floats from one tile's outputs in its upper row to those in its lower row. */
inline constexpr int64_t kOutputRow = 2 * kPackedWindows * kMostFilters;

/** The transforms of tiles for one instruction set. */
struct Transforms {
  Isa isa;
  /**
   * V: to[component * inputs.componentFloats + c * kPackedWindows + lane]. Padded elements are zeros; lanes beyond the
   * group hold anything.
   */
  void (*inputs)(const TileInputs& inputs, float* to);
  /**
   * Y of sums[component][tile][kMostFilters], of `width` filters each: output column s of row r of a tile at
   * outputs[r * kOutputRow + (2 * tile + s) * kMostFilters + f]. Tells whether all of them are finite.
   */
  bool (*outputs)(const float* sums, int64_t tiles, int64_t width, float* outputs);
};

/** The widest of those built that `isa` allows. */
const Transforms& transforms(Isa isa);

}  // namespace warpconv::winograd
