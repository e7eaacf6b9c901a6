#pragma once

#include <cstdint>
#include <optional>

#include "cuda/operators/strided.h"
#include "program/steps.h"

namespace warpconv::cuda::operators {

/**
 * Matrices whose rows are neighbours in the input and whose columns are neighbours in the output, in tiles that one
 * block moves: columns first, then rows, then matrices.
 */
struct Transpose {
  static constexpr int kTile = 32;

  /** Of matrices; tensor 0 is the input and 1 the output */
  Strided<2> matrices;
  /** Words; where the output has the next row, and the input the next column */
  int rows, rowStride, columns, columnStride;
  FastDivisor rowTiles, columnTiles;
  int64_t blocks;
};

/** How words, which may be several elements each, are moved from one tensor to another. */
struct CopyPlan {
  /** Bytes of a word: 1, 2, 4, 8 or 16 */
  int word;
  /** Tensor 0 is the input and 1 the output, whose order the axes have; strides count words. */
  Strided<2> positions;
  /** Where neighbours in the output are not neighbours in the input, but others are */
  std::optional<Transpose> transpose;
};

/** Axes that a step's positions have, once those are one that are stepped through as one. */
int64_t joinedAxes(const program::CopyStep& step);

/** Of a step of no more joined axes than Strided has room for. The addresses decide how wide a word may be. */
CopyPlan planCopy(const program::CopyStep& step, uintptr_t input, uintptr_t output);

}  // namespace warpconv::cuda::operators
