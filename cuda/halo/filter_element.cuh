#pragma once

#include "cuda/halo/arguments.h"

namespace warpconv::cuda::halo {

/** Which element of a filter a tap has for a position's channel; none where either coordinate lies beyond the filter.
 */
struct FilterElement {
  int map, row, column;
};

__device__ inline FilterElement filterElement(const Arguments& x, int tap, int channel) {
  const int tapColumns = (x.shape.s + x.foldColumns - 1) / x.foldColumns;
  return {channel / (x.foldRows * x.foldColumns), tap / tapColumns * x.foldRows + channel / x.foldColumns % x.foldRows,
          tap % tapColumns * x.foldColumns + channel % x.foldColumns};
}

__device__ inline bool exists(const Arguments& x, const FilterElement& element) {
  return element.row < x.shape.r && element.column < x.shape.s;
}

}  // namespace warpconv::cuda::halo
