#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace warpconv {

/** a / b rounded up, for a >= 0 and b > 0. */
template <std::integral T>
constexpr T ceilDivide(T a, std::type_identity_t<T> b) {
  return a / b + (a % b != 0);
}

/** The multiple of b that is a or follows it, likewise. */
template <std::integral T>
constexpr T roundUp(T a, std::type_identity_t<T> b) {
  return ceilDivide(a, b) * b;
}

/** The product of counts, or the largest 64-bit number where it has no room there: for comparing with limits. */
constexpr int64_t saturatedProduct(std::initializer_list<int64_t> counts) {
  int64_t product = 1;
  for (const int64_t count : counts) {
    if (count != 0 && product > std::numeric_limits<int64_t>::max() / count) return std::numeric_limits<int64_t>::max();
    product *= count;
  }
  return product;
}


/** The same of a sum. */
constexpr int64_t saturatedSum(int64_t a, int64_t b) {
  return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max() : a + b;
}

}  // namespace warpconv
