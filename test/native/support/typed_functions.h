#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/typed_elements.h"

/** The functions of map steps as their formulas: a value V is a float, a double, or an Int128 for integers of any type.
 */
namespace warpconv::test {

using MapOperation = program::MapStep::Operation;

/** One that is exact, or rounded once. */
template <typename V>
struct MapFunction {
  MapOperation operation;
  size_t operands;
  V (*formula)(V a, V b, V c, V p, V q);
  double p = 0, q = 0;
  /** Whether a result of zero may have either sign. */
  bool hasEitherZero = false;
};

template <typename V>
V timesOf(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    return a * b;
  } else {
    return static_cast<V>(static_cast<UInt128>(a) * static_cast<UInt128>(b));
  }
}

/** Those that are the same of integers and floats. */
template <typename V>
std::vector<MapFunction<V>> functionsOfAll() {
  using enum MapOperation;
  const auto eitherZero = [](MapFunction<V> function) {
    function.hasEitherZero = true;
    return function;
  };
  return {
      {identity, 1, [](V a, V, V, V, V) { return a; }},
      {add, 2, [](V a, V b, V, V, V) { return a + b; }},
      {subtract, 2, [](V a, V b, V, V, V) { return a - b; }},
      {multiply, 2, [](V a, V b, V, V, V) { return timesOf(a, b); }},
      eitherZero({minimum, 2, [](V a, V b, V, V, V) { return a != a || b != b ? a + b
                                                             : a < b          ? a
                                                                              : b; }}),
      eitherZero({maximum, 2, [](V a, V b, V, V, V) { return a != a || b != b ? a + b
                                                             : a > b          ? a
                                                                              : b; }}),
      {prelu, 2, [](V a, V b, V, V, V) { return a < 0 ? timesOf(a, b) : a; }},
      {equal, 2, [](V a, V b, V, V, V) { return static_cast<V>(a == b); }},
      {less, 2, [](V a, V b, V, V, V) { return static_cast<V>(a < b); }},
      {lessOrEqual, 2, [](V a, V b, V, V, V) { return static_cast<V>(a <= b); }},
      {greater, 2, [](V a, V b, V, V, V) { return static_cast<V>(a > b); }},
      {greaterOrEqual, 2, [](V a, V b, V, V, V) { return static_cast<V>(a >= b); }},
      {logicalAnd, 2, [](V a, V b, V, V, V) { return static_cast<V>(a != 0 && b != 0); }},
      {logicalOr, 2, [](V a, V b, V, V, V) { return static_cast<V>(a != 0 || b != 0); }},
      {logicalXor, 2, [](V a, V b, V, V, V) { return static_cast<V>((a != 0) != (b != 0)); }},
      {select, 3, [](V a, V b, V c, V, V) { return a != 0 ? b : c; }},
      {negate, 1, [](V a, V, V, V, V) { return -a; }},
      {absolute, 1, [](V a, V, V, V, V) { return a > 0 ? a : 0 - a; }},
      eitherZero({sign, 1, [](V a, V, V, V, V) { return a > 0   ? 1
                                                        : a < 0 ? -1
                                                                : a; }}),
      {logicalNot, 1, [](V a, V, V, V, V) { return static_cast<V>(a == 0); }},
      {isNaN, 1, [](V a, V, V, V, V) { return static_cast<V>(a != a); }},
      {constant, 1, [](V, V, V, V p, V) { return p; }, 5},
      eitherZero({relu, 1, [](V a, V, V, V, V) { return a < 0 ? 0 : a; }}),
      {clip, 1, [](V a, V, V, V p, V q) { return a < p   ? p
                                                 : a > q ? q
                                                         : a; }, 2, 100},
  };
}

inline UInt128 integerPower(UInt128 base, uint64_t exponent) {
  if (exponent == 0) return 1;
  return exponent % 2 == 1 ? base * integerPower(base, exponent - 1) : integerPower(base * base, exponent / 2);
}

/** Of which the integers keep the low bits. */
inline std::vector<MapFunction<Int128>> functionsOfIntegers() {
  using V = Int128;
  using enum MapOperation;
  std::vector<MapFunction<V>> all = functionsOfAll<V>();
  const MapFunction<V> others[] = {
      {divide, 2, [](V a, V b, V, V, V) { return b == 0 ? 0 : a / b; }},
      {modulo, 2, [](V a, V b, V, V, V) { return b == 0 ? 0 : (a % b + b) % b; }},
      {remainder, 2, [](V a, V b, V, V, V) { return b == 0 ? 0 : a % b; }},
      {power, 2,
       [](V a, V b, V, V, V) -> V {
         if (b >= 0) return static_cast<V>(integerPower(static_cast<UInt128>(a), static_cast<uint64_t>(b)));
         return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
       }},
      {bitAnd, 2, [](V a, V b, V, V, V) { return a & b; }},
      {bitOr, 2, [](V a, V b, V, V, V) { return a | b; }},
      {bitXor, 2, [](V a, V b, V, V, V) { return a ^ b; }},
      {bitNot, 1, [](V a, V, V, V, V) { return -a - 1; }},
      {shiftLeft, 2,
       [](V a, V b, V, V, V) { return b < 0 || b > 63 ? 0 : static_cast<V>(static_cast<UInt128>(a) << b); }},
      // By more bits than there are the sign alone is left.
      {shiftRight, 2, [](V a, V b, V, V, V) { return a >> (b < 0 || b > 63 ? 64 : b); }}};
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

template <typename V>
std::vector<MapFunction<V>> functionsOfFloats() {
  using enum MapOperation;
  static constexpr V kInfinity = std::numeric_limits<V>::infinity();
  std::vector<MapFunction<V>> all = functionsOfAll<V>();
  const auto infinite = [](V a, V, V, V p, V q) {
    return static_cast<V>((p != 0 && a == -kInfinity) || (q != 0 && a == kInfinity));
  };
  const MapFunction<V> others[] = {
      {divide, 2, [](V a, V b, V, V, V) { return a / b; }},
      {modulo, 2,
       [](V a, V b, V, V, V) {
         const V rest = std::fmod(a, b);
         return (rest < 0 && b > 0) || (rest > 0 && b < 0) ? rest + b : rest;
       },
       0, 0, true},
      {remainder, 2, [](V a, V b, V, V, V) { return std::fmod(a, b); }},
      {isInfinite, 1, infinite, 0, 0},
      {isInfinite, 1, infinite, 0, 1},
      {isInfinite, 1, infinite, 1, 0},
      {isInfinite, 1, infinite, 1, 1},
      {leakyRelu, 1, [](V a, V, V, V p, V) { return a < 0 ? p * a : a; }, 0.01},
      {thresholdedRelu, 1, [](V a, V, V, V p, V) { return a > p ? a : 0; }, 1},
      {thresholdedRelu, 1, [](V a, V, V, V p, V) { return a > p ? a : 0; }, -2, 0, true},
      {shrink, 1, [](V a, V, V, V p, V q) { return a < -p  ? a + q
                                                   : a > p ? a - q
                                                           : 0; }, 0.5, 0.25},
      {floor, 1, [](V a, V, V, V, V) { return std::floor(a); }},
      {ceil, 1, [](V a, V, V, V, V) { return std::ceil(a); }},
      {round, 1, [](V a, V, V, V, V) { return std::nearbyint(a); }},
      {sqrt, 1, [](V a, V, V, V, V) { return std::sqrt(a); }},
      {reciprocal, 1, [](V a, V, V, V, V) { return 1 / a; }}};
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

template <typename V>
bool isResult(const MapFunction<V>& function, V actual, V expected) {
  return isSame(actual, expected) || (function.hasEitherZero && actual == 0 && expected == 0);
}

// ------------------------------------------------------------------------------------------- functions of many
// roundings

using Wide = long double;

/** `terms` is what a formula adds up, whose rounding stays where the sum is smaller. */
struct RoundedFunction {
  MapOperation operation;
  size_t operands;
  /** Units in the last place: a few for each function of the library of C that the formula calls */
  double ulps;
  Wide (*formula)(Wide a, Wide b, Wide p, Wide q);
  double p = 0, q = 0;
  Wide (*terms)(Wide a, Wide p, Wide q) = [](Wide, Wide, Wide) { return Wide{0}; };
};

inline const std::vector<RoundedFunction>& roundedFunctions() {
  using V = Wide;
  using enum MapOperation;
  static const auto affineTerms = [](V a, V p, V q) { return std::abs(a * p) + std::abs(q); };
  static const auto softplusOf = [](V a) { return (a > 0 ? a : 0) + std::log1p(std::exp(-std::abs(a))); };
  static const auto clamp = [](V a, V low, V high) { return a < low ? low : a > high ? high : a; };
  // 1 + erf(a) of numbers far below zero has the error of a one.
  static const auto geluTerms = [](V a, V, V) { return a < 0 && a > -20 ? -4 * a : V{0}; };
  static const std::vector<RoundedFunction> all = {
      {power, 2, 4, [](V a, V b, V, V) { return std::pow(a, b); }},
      {affine, 1, 1, [](V a, V, V p, V q) { return a * p + q; }, 1.5, -0.25, affineTerms},
      {affine, 1, 1, [](V a, V, V p, V q) { return a * p + q; }, -3, 0.1, affineTerms},
      {exp, 1, 4, [](V a, V, V, V) { return std::exp(a); }},
      {log, 1, 4, [](V a, V, V, V) { return std::log(a); }},
      {erf, 1, 4, [](V a, V, V, V) { return std::erf(a); }},
      {sin, 1, 4, [](V a, V, V, V) { return std::sin(a); }},
      {cos, 1, 4, [](V a, V, V, V) { return std::cos(a); }},
      {tan, 1, 4, [](V a, V, V, V) { return std::tan(a); }},
      {asin, 1, 4, [](V a, V, V, V) { return std::asin(a); }},
      {acos, 1, 4, [](V a, V, V, V) { return std::acos(a); }},
      {atan, 1, 4, [](V a, V, V, V) { return std::atan(a); }},
      {sinh, 1, 4, [](V a, V, V, V) { return std::sinh(a); }},
      {cosh, 1, 4, [](V a, V, V, V) { return std::cosh(a); }},
      {tanh, 1, 4, [](V a, V, V, V) { return std::tanh(a); }},
      {scaledTanh, 1, 6, [](V a, V, V p, V q) { return p * std::tanh(q * a); }, 1.5, -0.75},
      {asinh, 1, 4, [](V a, V, V, V) { return std::asinh(a); }},
      {acosh, 1, 4, [](V a, V, V, V) { return std::acosh(a); }},
      {atanh, 1, 4, [](V a, V, V, V) { return std::atanh(a); }},
      {sigmoid, 1, 5, [](V a, V, V, V) { return 1 / (1 + std::exp(-a)); }},
      {hardSigmoid, 1, 1, [](V a, V, V p, V q) { return clamp(a * p + q, 0, 1); }, 0.2, 0.5, affineTerms},
      {hardSigmoid, 1, 1, [](V a, V, V p, V q) { return clamp(a * p + q, 0, 1); }, -0.5, 2, affineTerms},
      {hardSwish, 1, 3, [](V a, V, V, V) { return a * clamp(a + 3, 0, 6) / 6; }},
      {silu, 1, 6, [](V a, V, V, V) { return a / (1 + std::exp(-a)); }},
      {mish, 1, 10, [](V a, V, V, V) { return a * std::tanh(softplusOf(a)); }},
      {elu, 1, 5, [](V a, V, V p, V) { return a < 0 ? p * std::expm1(a) : a; }, 1.5},
      {selu, 1, 6, [](V a, V, V p, V q) { return q * (a < 0 ? p * std::expm1(a) : a); }, 1.67326319217681884765625,
       1.05070102214813232421875},
      {celu, 1, 6, [](V a, V, V p, V) { return a < 0 ? p * std::expm1(a / p) : a; }, 0.75},
      {gelu, 1, 6, [](V a, V, V, V) { return a / 2 * (1 + std::erf(a / std::sqrt(V{2}))); }, 0, 0, geluTerms},
      {geluTanh, 1, 8,
       [](V a, V, V, V) {
         const V factor = std::sqrt(2 / std::acos(V{-1}));
         return a / 2 * (1 + std::tanh(factor * (a + V{0.044715L} * a * a * a)));
       },
       0, 0, geluTerms},
      {softplus, 1, 6, [](V a, V, V, V) { return softplusOf(a); }},
      {softsign, 1, 3, [](V a, V, V, V) { return a / (1 + std::abs(a)); }}};
  return all;
}

/** The distance of the values of C around x. */
template <typename C>
Wide ulpOf(Wide x) {
  using Limits = std::numeric_limits<C>;
  constexpr Wide kSmallest = Limits::denorm_min();
  return x == 0 ? kSmallest : std::max(kSmallest, std::ldexp(Wide{1}, std::ilogb(x) - Limits::digits + 1));
}

/** `times` the bound; at the end of the floats an infinity is as right as the greatest one. */
template <typename C>
bool isWithinBound(const RoundedFunction& function, double times, C a, C b, C actual) {
  using Limits = std::numeric_limits<C>;
  const Wide p = static_cast<C>(function.p), q = static_cast<C>(function.q);
  const Wide exact = function.formula(a, b, p, q);
  if (std::isnan(exact)) return std::isnan(actual);
  if (std::isinf(exact)) return static_cast<Wide>(actual) == exact;
  constexpr Wide kMost = Limits::max();
  const Wide expected = std::clamp<Wide>(exact, -kMost, kMost);
  const Wide terms = function.terms(a, p, q);
  // Of factors that are too small for a float many digits are lost, a thousand times as many as the other factor says.
  const Wide allowed = function.ulps * ulpOf<C>(expected) + 1000 * Wide{Limits::denorm_min()} +
                       (std::isfinite(terms) ? terms * Limits::epsilon() : 0);
  return std::abs(std::clamp<Wide>(actual, -kMost, kMost) - expected) <= times * allowed;
}

// ---------------------------------------------------------------------------------------------------------- points

/** Zeros, the smallest and the largest, where functions bend, and some others. */
template <typename C, typename Random>
std::vector<C> pointsOf(Random& random) {
  using Limits = std::numeric_limits<C>;
  std::vector<C> points = {Limits::quiet_NaN()};
  for (const C magnitude : {C{0},
                            Limits::denorm_min(),
                            3 * Limits::denorm_min(),
                            Limits::min(),
                            C(1e-20),
                            C(1e-7),
                            C(0.25),
                            C(0.5),
                            C(0.75),
                            C(1),
                            C(1.5),
                            C(2),
                            C(2.5),
                            C(3),
                            C(6),
                            C(7.25),
                            C(88.7),
                            C(103.5),
                            C(104.5),
                            C(200),
                            C(709.5),
                            C(745),
                            C(1000.5),
                            C(8388607.5),
                            C(3e9),
                            C(1e19),
                            C(1e30),
                            Limits::max() / 2,
                            Limits::max(),
                            Limits::infinity()}) {
    points.push_back(magnitude), points.push_back(-magnitude);
  }
  for (int i = 0; i < 100; ++i) {
    const auto numerator = static_cast<double>(random.from(-1'000'000, 1'000'000));
    points.push_back(static_cast<C>(numerator / 123456 * std::ldexp(1.0, static_cast<int>(random.from(-12, 3)))));
  }
  return points;
}

/** Bounds, bits of shifts, and some others; kept to what the type holds. */
inline Elements integersOf(ElementType type) {
  std::vector<Int128> values;
  for (const int64_t small : {0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 65, 100}) {
    values.push_back(small), values.push_back(-static_cast<Int128>(small));
  }
  for (const int bits : {7, 8, 15, 16, 31, 32, 53, 62, 63, 64}) {
    const Int128 bound = static_cast<Int128>(1) << bits;
    values.insert(values.end(), {bound, bound - 1, -bound, -bound + 1, bound / 3});
  }
  return withElement(type, [&](auto like) {
    using T = decltype(like);
    std::vector<T> kept;
    for (const Int128 value : values) {
      const T element = elementOf<T>(value);
      const bool isNew = std::none_of(kept.begin(), kept.end(), [&](T other) { return isSame(other, element); });
      if (isNew && static_cast<Int128>(exactOf(element)) == value) kept.push_back(element);
    }
    return Elements(kept);
  });
}

/** Two lists of the same length that pair every element with every one. */
inline void pairUp(const Elements& elements, Elements& first, Elements& second) {
  const int64_t count = elements.count(), width = bytesOf(elements.type);
  first = second = Elements(elements.type, count * count);
  for (int64_t i = 0; i < count * count; ++i) {
    std::memcpy(first.at(i), elements.at(i / count), static_cast<size_t>(width));
    std::memcpy(second.at(i), elements.at(i % count), static_cast<size_t>(width));
  }
}

}  // namespace warpconv::test
