#pragma once

#include <concepts>
#include <type_traits>

namespace warpconv {

/** a / b rounded up, for a >= 0 and b > 0. */
template <std::integral T>
constexpr T ceilDivide(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

/** The multiple of b that is a or follows it, likewise. */
template <std::integral T>
constexpr T roundUp(T a, std::type_identity_t<T> b) {
  return ceilDivide(a, b) * b;
}

}  // namespace warpconv
