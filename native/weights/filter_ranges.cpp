#include "weights/filter_ranges.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace warpconv {

/** The bits of magnitudes are in the order of the magnitudes, with NaN behind infinity: integers are compared in vectors. */
FilterRange filterRange(const float* filter, int64_t size) {
  constexpr int32_t kMagnitude = 0x7fffffff;
  constexpr int32_t kInfinity = 0x7f800000;
  int32_t largest = 0;
  int32_t smallest = kMagnitude;
  for (int64_t i = 0; i < size; ++i) {
    const int32_t bits = std::bit_cast<int32_t>(filter[i]) & kMagnitude;
    largest = std::max(largest, bits);
    smallest = std::min(smallest, bits == 0 ? kMagnitude : bits);
  }
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (largest > kInfinity) return {kNaN, kNaN};
  return {std::bit_cast<float>(largest), std::bit_cast<float>(std::min(smallest, kInfinity))};
}

}  // namespace warpconv
