#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "host_device.h"
#include "program/steps.h"
#include "typed/elements.h"

/** The functions of a map step, for each type that it computes in, on any device. */
namespace warpconv::typed {

using MapOperation = program::MapStep::Operation;

namespace detail {

/** Unsigned integers wrap around where signed ones would be undefined. */
template <typename C>
using Wrapping = std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, C>;

template <typename C>
WARPCONV_HOST_DEVICE bool isNegative(C value) {
  if constexpr (std::is_unsigned_v<C>) {
    return false;
  } else {
    return value < 0;
  }
}

template <typename C>
WARPCONV_HOST_DEVICE C truthOf(bool holds) {
  return static_cast<C>(holds ? 1 : 0);
}

template <typename C>
WARPCONV_HOST_DEVICE C quotient(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) return a / b;
  if (b == 0) return 0;
  // The least number has no opposite: it stays what it is.
  if (b == static_cast<C>(-1) && std::is_signed_v<C>) return static_cast<C>(0 - static_cast<Wrapping<C>>(a));
  return static_cast<C>(a / b);
}

template <typename C>
WARPCONV_HOST_DEVICE C remainderOf(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::fmod(a, b);
  } else {
    return b == 0 || (b == static_cast<C>(-1) && std::is_signed_v<C>) ? 0 : static_cast<C>(a % b);
  }
}

template <typename C>
WARPCONV_HOST_DEVICE C modulo(C a, C b) {
  const C rest = remainderOf(a, b);
  return rest != 0 && isNegative(rest) != isNegative(b) ? static_cast<C>(rest + b) : rest;
}

/**
 * By squaring, where base and exponent are whole numbers: exact as long as a double holds the result, which not every
 * device's pow is. Beyond that pow is nearer.
 */
WARPCONV_HOST_DEVICE inline double powerOfDoubles(double base, double exponent) {
  constexpr double kMostExact = 0x1p53, kMostSquared = 64;
  const bool isWhole = base == std::rint(base) && exponent == std::rint(exponent);
  if (!isWhole || exponent < 0 || exponent > kMostSquared) return std::pow(base, exponent);
  double result = 1, factor = base;
  for (auto left = static_cast<int>(exponent); left != 0; left >>= 1, factor *= factor) {
    if (left & 1) result *= factor;
  }
  return std::fabs(result) <= kMostExact ? result : std::pow(base, exponent);
}

template <typename C>
WARPCONV_HOST_DEVICE C powerOf(C base, C exponent) {
  if constexpr (std::is_same_v<C, double>) {
    return powerOfDoubles(base, exponent);
  } else if constexpr (std::is_floating_point_v<C>) {
    return std::pow(base, exponent);
  } else {
    if (isNegative(exponent)) {
      if (base == 1) return 1;
      if (base == static_cast<C>(-1)) return exponent % 2 == 0 ? 1 : static_cast<C>(-1);
      return 0;
    }
    Wrapping<C> result = 1, factor = static_cast<Wrapping<C>>(base);
    for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1, factor *= factor) {
      if (left & 1) result *= factor;
    }
    return static_cast<C>(result);
  }
}

template <typename C>
WARPCONV_HOST_DEVICE C atLeast(C x, C low) {
  return x < low ? low : x;
}
template <typename C>
WARPCONV_HOST_DEVICE C atMost(C x, C high) {
  return x > high ? high : x;
}
template <typename C>
WARPCONV_HOST_DEVICE C sigmoidOf(C x) {
  const C power = std::exp(-std::fabs(x));
  return (x < 0 ? power : C{1}) / (C{1} + power);
}
template <typename C>
WARPCONV_HOST_DEVICE C softplusOf(C x) {
  return atLeast(x, C{0}) + std::log1p(std::exp(-std::fabs(x)));
}
template <typename C>
WARPCONV_HOST_DEVICE C eluOf(C x, C alpha) {
  return x < 0 ? alpha * std::expm1(x) : x;
}

}  // namespace detail

/** Calls `body` with the function that a map step computes of three values, of which it takes as many as it has. */
template <typename C, typename Body>
WARPCONV_HOST_DEVICE void withFunction(MapOperation operation, double given, double second, const Body& body) {
  using namespace detail;
  using W = Wrapping<C>;
  constexpr bool kIsFloat = std::is_floating_point_v<C>;
  const C p = ofReal<C>(given), q = ofReal<C>(second);
  const auto one = [&](const auto& function) { body([&](C a, C, C) { return static_cast<C>(function(a)); }); };
  const auto two = [&](const auto& function) { body([&](C a, C b, C) { return static_cast<C>(function(a, b)); }); };
  const auto wrapped = [&](const auto& function) {
    body([&](C a, C b, C) { return static_cast<C>(function(static_cast<W>(a), static_cast<W>(b))); });
  };
  const auto compare = [&](const auto& function) { body([&](C a, C b, C) { return truthOf<C>(function(a, b)); }); };
  switch (operation) {
    case MapOperation::identity: return one([](C a) { return a; });
    case MapOperation::add: return wrapped([](W a, W b) { return a + b; });
    case MapOperation::subtract: return wrapped([](W a, W b) { return a - b; });
    case MapOperation::multiply: return wrapped([](W a, W b) { return a * b; });
    case MapOperation::divide: return two([](C a, C b) { return quotient(a, b); });
    case MapOperation::modulo: return two([](C a, C b) { return modulo(a, b); });
    case MapOperation::remainder: return two([](C a, C b) { return remainderOf(a, b); });
    case MapOperation::minimum: return two([](C a, C b) { return a < b || a != a ? a : b; });
    case MapOperation::maximum: return two([](C a, C b) { return a > b || a != a ? a : b; });
    case MapOperation::power: return two([](C a, C b) { return powerOf(a, b); });
    case MapOperation::prelu: return wrapped([](W a, W b) { return isNegative(static_cast<C>(a)) ? a * b : a; });
    case MapOperation::equal: return compare([](C a, C b) { return a == b; });
    case MapOperation::less: return compare([](C a, C b) { return a < b; });
    case MapOperation::lessOrEqual: return compare([](C a, C b) { return a <= b; });
    case MapOperation::greater: return compare([](C a, C b) { return a > b; });
    case MapOperation::greaterOrEqual: return compare([](C a, C b) { return a >= b; });
    case MapOperation::logicalAnd: return compare([](C a, C b) { return a != 0 && b != 0; });
    case MapOperation::logicalOr: return compare([](C a, C b) { return a != 0 || b != 0; });
    case MapOperation::logicalXor: return compare([](C a, C b) { return (a != 0) != (b != 0); });
    case MapOperation::select: return body([](C a, C b, C c) { return a != 0 ? b : c; });
    case MapOperation::negate: return one([](C a) { return kIsFloat ? -a : static_cast<C>(W{0} - static_cast<W>(a)); });
    case MapOperation::absolute:
      if constexpr (kIsFloat) return one([](C a) { return std::fabs(a); });
      return one([](C a) { return isNegative(a) ? static_cast<C>(W{0} - static_cast<W>(a)) : a; });
    case MapOperation::sign: return one([](C a) { return a > 0 ? C{1} : (isNegative(a) ? static_cast<C>(-1) : a); });
    case MapOperation::logicalNot: return one([](C a) { return truthOf<C>(a == 0); });
    case MapOperation::isNaN: return one([](C a) { return truthOf<C>(a != a); });
    case MapOperation::constant: return one([=](C) { return p; });
    case MapOperation::relu: return one([](C a) { return atLeast(a, C{0}); });
    case MapOperation::clip: return one([=](C a) { return atMost(atLeast(a, p), q); });
    default: break;
  }
  if constexpr (!kIsFloat) {
    // A negative count is beyond, too.
    const auto isShift = [](C count) { return static_cast<uint64_t>(count) < 64; };
    switch (operation) {
      case MapOperation::bitAnd: return two([](C a, C b) { return a & b; });
      case MapOperation::bitOr: return two([](C a, C b) { return a | b; });
      case MapOperation::bitXor: return two([](C a, C b) { return a ^ b; });
      case MapOperation::isInfinite: return one([](C) { return C{0}; });
      case MapOperation::bitNot: return one([](C a) { return ~a; });
      case MapOperation::shiftLeft: return two([=](C a, C b) { return isShift(b) ? static_cast<C>(W(a) << b) : C{0}; });
      case MapOperation::shiftRight:
        return two(
            [=](C a, C b) { return isShift(b) ? static_cast<C>(a >> b) : static_cast<C>(isNegative(a) ? -1 : 0); });
      default: return one([](C a) { return a; });
    }
  } else {
    switch (operation) {
      case MapOperation::isInfinite:
        return one([=](C a) { return truthOf<C>((p != 0 && a == -HUGE_VAL) || (q != 0 && a == HUGE_VAL)); });
      case MapOperation::affine: return one([=](C a) { return a * p + q; });
      case MapOperation::leakyRelu: return one([=](C a) { return a < 0 ? p * a : a; });
      case MapOperation::thresholdedRelu: return one([=](C a) { return a > p ? a : C{0}; });
      case MapOperation::shrink: return one([=](C a) { return a < -p ? a + q : a > p ? a - q : C{0}; });
      case MapOperation::floor: return one([](C a) { return std::floor(a); });
      case MapOperation::ceil: return one([](C a) { return std::ceil(a); });
      case MapOperation::round: return one([](C a) { return std::rint(a); });
      case MapOperation::sqrt: return one([](C a) { return std::sqrt(a); });
      case MapOperation::reciprocal: return one([](C a) { return C{1} / a; });
      case MapOperation::exp: return one([](C a) { return std::exp(a); });
      case MapOperation::log: return one([](C a) { return std::log(a); });
      case MapOperation::erf: return one([](C a) { return std::erf(a); });
      case MapOperation::sin: return one([](C a) { return std::sin(a); });
      case MapOperation::cos: return one([](C a) { return std::cos(a); });
      case MapOperation::tan: return one([](C a) { return std::tan(a); });
      case MapOperation::asin: return one([](C a) { return std::asin(a); });
      case MapOperation::acos: return one([](C a) { return std::acos(a); });
      case MapOperation::atan: return one([](C a) { return std::atan(a); });
      case MapOperation::sinh: return one([](C a) { return std::sinh(a); });
      case MapOperation::cosh: return one([](C a) { return std::cosh(a); });
      case MapOperation::tanh: return one([](C a) { return std::tanh(a); });
      case MapOperation::scaledTanh: return one([=](C a) { return p * std::tanh(q * a); });
      case MapOperation::asinh: return one([](C a) { return std::asinh(a); });
      case MapOperation::acosh: return one([](C a) { return std::acosh(a); });
      case MapOperation::atanh: return one([](C a) { return std::atanh(a); });
      case MapOperation::sigmoid: return one([](C a) { return sigmoidOf(a); });
      case MapOperation::hardSigmoid: return one([=](C a) { return atMost(atLeast(a * p + q, C{0}), C{1}); });
      case MapOperation::hardSwish: return one([](C a) { return a * (atMost(atLeast(a + C{3}, C{0}), C{6}) / C{6}); });
      case MapOperation::silu: return one([](C a) { return a * sigmoidOf(a); });
      case MapOperation::mish: return one([](C a) { return a * std::tanh(softplusOf(a)); });
      case MapOperation::elu: return one([=](C a) { return eluOf(a, p); });
      case MapOperation::selu: return one([=](C a) { return q * eluOf(a, p); });
      case MapOperation::celu: return one([=](C a) { return a < 0 ? p * std::expm1(a / p) : a; });
      case MapOperation::gelu:
        return one([](C a) { return C(0.5) * a * (C{1} + std::erf(a * C(0.70710678118654752440))); });
      case MapOperation::geluTanh:
        return one([](C a) {
          return C(0.5) * a * (C{1} + std::tanh(C(0.79788456080286535588) * (a + C(0.044715) * a * a * a)));
        });
      case MapOperation::softplus: return one([](C a) { return softplusOf(a); });
      case MapOperation::softsign: return one([](C a) { return a / (C{1} + std::fabs(a)); });
      default: return one([](C a) { return a; });
    }
  }
}

}  // namespace warpconv::typed
