#include "weights/filter_ranges.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace warpconv;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

FilterRange rangeOf(const std::vector<float>& filter) {
  return filterRange(filter.data(), static_cast<int64_t>(filter.size()));
}

}  // namespace

TEST_CASE("the range of a filter is of magnitudes, and zeros are no smallest ones") {
  const FilterRange range = rangeOf({0.5F, -3, 0, -0.0F, 2, -0.25F, 1});
  CHECK(range.largest == 3);
  CHECK(range.smallest == 0.25F);
}

TEST_CASE("the range of a filter has subnormal and infinite ends") {
  const FilterRange range = rangeOf({1, -kSmallest, -kInfinity});
  CHECK(range.largest == kInfinity);
  CHECK(range.smallest == kSmallest);
}

TEST_CASE("a filter of zeros, or of nothing, has no smallest magnitude") {
  for (const std::vector<float>& filter : {std::vector<float>{0, -0.0F}, std::vector<float>{}}) {
    const FilterRange range = rangeOf(filter);
    CHECK(range.largest == 0);
    CHECK(range.smallest == kInfinity);
  }
}

TEST_CASE("a filter with NaN anywhere has no range") {
  for (size_t place = 0; place < 40; ++place) {
    std::vector<float> filter(40, place % 2 == 0 ? kInfinity : 1);
    filter[place] = place % 3 == 0 ? -kNaN : kNaN;
    const FilterRange range = rangeOf(filter);
    CHECK(std::isnan(range.largest));
    CHECK(std::isnan(range.smallest));
  }
}
