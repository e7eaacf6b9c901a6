#pragma once

#include <cstdint>

namespace warpconv {

/** The magnitudes of a filter's elements. Both are NaN where an element is. */
struct FilterRange {
  float largest;
  /** Of those that are not 0; infinity where all are */
  float smallest;
};

FilterRange filterRange(const float* filter, int64_t size);

}  // namespace warpconv
