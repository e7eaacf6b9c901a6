#pragma once

#include <cstdint>

#include "cuda/stem/tile.h"
#include "divide.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda::stem {

/**
 * The input elements around a tile's outputs, as a block keeps them. A word is two elements that the same row of the
 * filter takes for neighbouring columns, s and s + 1: x and x + dilation. Even strides need no words but those of even
 * x, of which a row has half as many.
 */
struct Patch {
  /** Elements from one word of a row to the next */
  int64_t step = 1;
  /** Of a channel, and of a row */
  int64_t rows = 0, words = 0;
  /** Of a filter row */
  int64_t pairs = 0;
  /** Channels of a group */
  int64_t channels = 0;

  int64_t size() const { return saturatedProduct({channels, rows, words}); }
};

Patch patchOf(const ConvProblem& problem, const StemTile& tile);

/** Words that a thread brings: as many as any other, so that some lie beyond the patch. */
int64_t wordsEach(const Patch& patch, const StemTile& tile);

/** Word of the pair (c, r, s / 2), counted from that of an output's first element. */
int64_t pairOffset(const ConvProblem& problem, const Patch& patch, int64_t c, int64_t r, int64_t pair);

/** Steps of a sum */
int64_t stepsOf(const ConvProblem& problem);

}  // namespace warpconv::cuda::stem
