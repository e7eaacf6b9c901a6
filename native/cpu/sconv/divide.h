#pragma once

#include <cstdint>

namespace warpconv::sconv {

/** a / b rounded up, for a >= 0 and b > 0. */
constexpr int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace warpconv::sconv
