#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "program/steps.h"

/** Elements of every type, and what becomes of them as another one, from the definitions: nothing here is the
 * library's. */
namespace warpconv::test {

using program::ElementType;

inline constexpr ElementType kElementTypes[] = {
    ElementType::float32,        ElementType::float64,      ElementType::float16,        ElementType::bfloat16,
    ElementType::int8,           ElementType::int16,        ElementType::int32,          ElementType::int64,
    ElementType::uint8,          ElementType::uint16,       ElementType::uint32,         ElementType::uint64,
    ElementType::boolean,        ElementType::float8e4m3fn, ElementType::float8e4m3fnuz, ElementType::float8e5m2,
    ElementType::float8e5m2fnuz, ElementType::float8e8m0,   ElementType::float4e2m1,     ElementType::int4,
    ElementType::uint4,          ElementType::int2,         ElementType::uint2};

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
/** Any byte but zero is true. */
struct Boolean {
  uint8_t byte;
};

/** Of one of the types of 8 bits and less that C++ has none for. */
template <ElementType kOf>
struct Small {
  static constexpr ElementType kType = kOf;
  uint8_t byte;
};

/** Holds every integer of 64 bits, and the sum of any two. */
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
inline constexpr bool kIsSmall = false;
template <ElementType kOf>
inline constexpr bool kIsSmall<Small<kOf>> = true;

/** Of a small integer the bits, or 0 for a float. */
constexpr int integerBitsOf(ElementType type) {
  if (type == ElementType::int4 || type == ElementType::uint4) return 4;
  return type == ElementType::int2 || type == ElementType::uint2 ? 2 : 0;
}
template <typename T>
constexpr bool isSmallFloat() {
  if constexpr (kIsSmall<T>) return integerBitsOf(T::kType) == 0;
  return false;
}

/** Calls `body` with an element of the type. */
template <typename Body>
auto withElement(ElementType type, const Body& body) {
  switch (type) {
    case ElementType::float32: return body(float{});
    case ElementType::float64: return body(double{});
    case ElementType::float16: return body(Float16{});
    case ElementType::bfloat16: return body(BFloat16{});
    case ElementType::int8: return body(int8_t{});
    case ElementType::int16: return body(int16_t{});
    case ElementType::int32: return body(int32_t{});
    case ElementType::int64: return body(int64_t{});
    case ElementType::uint8: return body(uint8_t{});
    case ElementType::uint16: return body(uint16_t{});
    case ElementType::uint32: return body(uint32_t{});
    case ElementType::uint64: return body(uint64_t{});
    case ElementType::float8e4m3fn: return body(Small<ElementType::float8e4m3fn>{});
    case ElementType::float8e4m3fnuz: return body(Small<ElementType::float8e4m3fnuz>{});
    case ElementType::float8e5m2: return body(Small<ElementType::float8e5m2>{});
    case ElementType::float8e5m2fnuz: return body(Small<ElementType::float8e5m2fnuz>{});
    case ElementType::float8e8m0: return body(Small<ElementType::float8e8m0>{});
    case ElementType::float4e2m1: return body(Small<ElementType::float4e2m1>{});
    case ElementType::int4: return body(Small<ElementType::int4>{});
    case ElementType::uint4: return body(Small<ElementType::uint4>{});
    case ElementType::int2: return body(Small<ElementType::int2>{});
    case ElementType::uint2: return body(Small<ElementType::uint2>{});
    case ElementType::boolean: break;
  }
  return body(Boolean{});
}

/** Whether numbers from 0 to 100 are elements. */
inline bool holdsHundred(ElementType type) {
  return withElement(type,
                     [](auto like) { return !kIsSmall<decltype(like)> && !std::is_same_v<decltype(like), Boolean>; });
}

template <typename T>
ElementType typeOf() {
  const auto isOfT = [](ElementType type) {
    return withElement(type, [](auto like) { return std::is_same_v<decltype(like), T>; });
  };
  return *std::find_if(std::begin(kElementTypes), std::end(kElementTypes), isOfT);
}

/** In what a step computes that has operands of a type. */
inline ElementType computeOf(ElementType type) {
  switch (type) {
    case ElementType::float32:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::float8e4m3fn:
    case ElementType::float8e4m3fnuz:
    case ElementType::float8e5m2:
    case ElementType::float8e5m2fnuz:
    case ElementType::float8e8m0:
    case ElementType::float4e2m1: return ElementType::float32;
    case ElementType::float64:
    case ElementType::uint64: return type;
    default: return ElementType::int64;
  }
}

inline bool isReal(ElementType type) { return computeOf(type) == ElementType::float32 || type == ElementType::float64; }

inline int64_t bytesOf(ElementType type) {
  return withElement(type, [](auto like) { return static_cast<int64_t>(sizeof like); });
}

/** The map step that makes elements of another type of so many, one after the other. */
inline program::MapStep castStep(ElementType from, ElementType to, int64_t count) {
  program::MapStep step;
  step.compute = computeOf(from), step.outputType = to;
  step.types = {from};
  step.extents = {count};
  step.operands.resize(1);
  step.strides = {{1}};
  return step;
}

// ---------------------------------------------------------------------------------------------------------- values

/** Bits behind the point of a half, and what its exponents count from. */
template <typename Half>
inline constexpr int kFractionBits = std::is_same_v<Half, Float16> ? 10 : 7;
template <typename Half>
inline constexpr int kBias = std::is_same_v<Half, Float16> ? 15 : 127;

template <typename Half>
double valueOfHalf(Half half) {
  constexpr int kFraction = kFractionBits<Half>;
  const double sign = half.bits >> 15 != 0 ? -1 : 1;
  const int exponent = (half.bits & 0x7fff) >> kFraction, fraction = half.bits & ((1 << kFraction) - 1);
  if (exponent == 2 * kBias<Half> + 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - kBias<Half> - kFraction);
  return sign * std::ldexp((1 << kFraction) + fraction, exponent - kBias<Half> - kFraction);
}

/** Of two that are as near the even one. */
template <typename Half>
Half nearestHalf(double value) {
  constexpr int kFraction = kFractionBits<Half>;
  constexpr int kInfinity = (2 * kBias<Half> + 1) << kFraction;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  double bits = 0;
  if (std::isnan(value)) {
    bits = kInfinity + 1;
  } else if (magnitude != 0) {
    const int exponent = std::isinf(value) ? 1024 : std::max(std::ilogb(magnitude), 1 - kBias<Half>);
    // In units of the last place, the first of which are those of the exponent before.
    const double units = std::nearbyint(std::ldexp(magnitude, kFraction - exponent));
    bits = std::min<double>(kInfinity, std::ldexp(exponent + kBias<Half> - 1, kFraction) + units);
  }
  return {static_cast<uint16_t>(sign | static_cast<int>(bits))};
}

template <typename Half>
Half nearestHalf(Int128 value) {
  const UInt128 magnitude = value < 0 ? -static_cast<UInt128>(value) : static_cast<UInt128>(value);
  int cut = 0;
  while (magnitude >> cut >> (kFractionBits<Half> + 1) != 0) ++cut;
  UInt128 units = magnitude >> cut;
  const UInt128 twice = 2 * (magnitude - (units << cut)), unit = static_cast<UInt128>(1) << cut;
  if (twice > unit || (twice == unit && units % 2 == 1)) ++units;
  const double rounded = std::ldexp(static_cast<double>(units), cut);
  return nearestHalf<Half>(value < 0 ? -rounded : rounded);
}

/** What a code of a small float stands for, from the tables of its format. */
inline double valueOfSmall(ElementType type, int code) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (type == ElementType::float8e8m0) return code == 0xff ? kNaN : std::ldexp(1.0, code - 127);
  struct Format {
    int width, fraction, bias;
  };
  const Format format = type == ElementType::float8e4m3fn     ? Format{8, 3, 7}
                        : type == ElementType::float8e4m3fnuz ? Format{8, 3, 8}
                        : type == ElementType::float8e5m2     ? Format{8, 2, 15}
                        : type == ElementType::float8e5m2fnuz ? Format{8, 2, 16}
                                                              : Format{4, 1, 1};
  const int sign = 1 << (format.width - 1), magnitude = code % sign;
  const bool isUnsignedZero = type == ElementType::float8e4m3fnuz || type == ElementType::float8e5m2fnuz;
  if (isUnsignedZero && code == sign) return kNaN;
  if (type == ElementType::float8e4m3fn && magnitude == 0x7f) return kNaN;
  if (type == ElementType::float8e5m2 && magnitude > 0x7c) return kNaN;
  const int exponent = magnitude >> format.fraction, units = magnitude % (1 << format.fraction);
  const double value = type == ElementType::float8e5m2 && magnitude == 0x7c ? std::numeric_limits<double>::infinity()
                       : exponent == 0
                           ? std::ldexp(units, 1 - format.bias - format.fraction)
                           : std::ldexp((1 << format.fraction) + units, exponent - format.bias - format.fraction);
  return (code & sign) != 0 ? -value : value;
}

/** By a search among all: of two that are as near the even one; powers of two from above. */
inline uint8_t nearestSmall(ElementType type, double value) {
  const bool isPower = type == ElementType::float8e8m0, isFour = type == ElementType::float4e2m1;
  const int sign = isFour ? 0x8 : 0x80, codes = isPower ? 255 : sign;
  const auto nan = [&] {
    return type == ElementType::float8e5m2 ? 0x7e : type == ElementType::float8e4m3fn ? 0x7f : isPower ? 0xff : sign;
  };
  if (std::isnan(value)) return static_cast<uint8_t>(nan());
  const double magnitude = std::abs(value);
  int last = codes - 1;
  while (!std::isfinite(valueOfSmall(type, last))) --last;
  int code = 0;
  if (isPower) {
    while (code <= last && valueOfSmall(type, code) < magnitude) ++code;
    return static_cast<uint8_t>(code > last ? nan() : code);
  }
  for (; code <= last; ++code) {
    const double own = valueOfSmall(type, code);
    const double step = code < last ? valueOfSmall(type, code + 1) - own : own - valueOfSmall(type, code - 1);
    if (magnitude < own + step / 2 || (magnitude == own + step / 2 && code % 2 == 0)) break;
  }
  if (code > last && type == ElementType::float8e5m2) code = 0x7c;
  if (code > last && isFour) code = last;
  if (code > last && type != ElementType::float8e5m2)
    return static_cast<uint8_t>(type == ElementType::float8e4m3fn && std::signbit(value) ? 0xff : nan());
  const bool hasSign = std::signbit(value) && !(code == 0 && valueOfSmall(type, sign) != 0);
  return static_cast<uint8_t>(hasSign ? code | sign : code);
}

/** What an element is: a double that has its value, or an integer. */
template <typename T>
auto exactOf(T element) {
  if constexpr (kIsHalf<T>) {
    return valueOfHalf(element);
  } else if constexpr (isSmallFloat<T>()) {
    return valueOfSmall(T::kType, T::kType == ElementType::float4e2m1 ? element.byte % 16 : element.byte);
  } else if constexpr (kIsSmall<T>) {
    const bool isSigned = T::kType == ElementType::int4 || T::kType == ElementType::int2;
    return static_cast<Int128>(isSigned ? static_cast<int8_t>(element.byte) : element.byte);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(element);
  } else if constexpr (std::is_same_v<T, Boolean>) {
    return static_cast<Int128>(element.byte != 0 ? 1 : 0);
  } else {
    return static_cast<Int128>(element);
  }
}

/** A double that is rounded to a few bits as the number itself is: what it has no bits for is in its last one. */
inline double oddDouble(double exact) { return exact; }
inline double oddDouble(Int128 exact) {
  const UInt128 magnitude = exact < 0 ? -static_cast<UInt128>(exact) : static_cast<UInt128>(exact);
  int cut = 0;
  while (magnitude >> cut >> 53 != 0) ++cut;
  UInt128 units = magnitude >> cut;
  if ((units << cut) != magnitude) units |= 1;
  const double odd = std::ldexp(static_cast<double>(units), cut);
  return exact < 0 ? -odd : odd;
}

/**
 * The element that a double or an Int128 becomes: what a float cuts off of it is rounded, integers keep their low bits,
 * and floats that become integers lose what is behind the point, or are brought to the nearest bound.
 */
template <typename T, typename Exact>
T elementOf(Exact exact) {
  if constexpr (std::is_same_v<T, Boolean>) {
    return {static_cast<uint8_t>(exact != 0 ? 1 : 0)};
  } else if constexpr (kIsHalf<T>) {
    return nearestHalf<T>(exact);
  } else if constexpr (isSmallFloat<T>()) {
    return {nearestSmall(T::kType, oddDouble(exact))};
  } else if constexpr (kIsSmall<T>) {
    constexpr int kRange = 1 << integerBitsOf(T::kType);
    const int low = ((elementOf<int8_t>(exact) % kRange) + kRange) % kRange;
    const bool isSigned = T::kType == ElementType::int4 || T::kType == ElementType::int2;
    return {static_cast<uint8_t>(isSigned && low >= kRange / 2 ? low - kRange : low)};
  } else if constexpr (std::is_floating_point_v<T> || !std::is_same_v<Exact, double>) {
    return static_cast<T>(exact);
  } else {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(exact)) return 0;
    if (exact >= std::ldexp(1.0, Limits::digits)) return Limits::max();
    return exact <= static_cast<double>(Limits::min()) ? Limits::min() : static_cast<T>(exact);
  }
}

/** To the bit, but for NaN, which is any NaN. */
template <typename T>
bool isSame(T a, T b) {
  if constexpr (kIsHalf<T> || isSmallFloat<T>() || std::is_floating_point_v<T>) {
    if (std::isnan(exactOf(a)) && std::isnan(exactOf(b))) return true;
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <typename T>
std::string shown(T element) {
  std::ostringstream text;
  if constexpr (std::is_integral_v<T>) {
    text << +element;
  } else if constexpr (std::is_same_v<T, Boolean>) {
    text << "byte " << +element.byte;
  } else if constexpr (kIsSmall<T>) {
    text << "code " << +element.byte;
  } else {
    text << std::setprecision(17) << exactOf(element);
  }
  return text.str();
}

// --------------------------------------------------------------------------------------------------------- tensors

/** Elements of a type that is known when a test runs. */
struct Elements {
  ElementType type = ElementType::float32;
  std::vector<std::byte> bytes;

  Elements() = default;
  Elements(ElementType of, int64_t count) : type(of), bytes(static_cast<size_t>(count * bytesOf(of))) {}
  template <typename T>
  Elements(const std::vector<T>& values) : Elements(typeOf<T>(), static_cast<int64_t>(values.size())) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  }

  int64_t count() const { return static_cast<int64_t>(bytes.size()) / bytesOf(type); }
  const std::byte* at(int64_t i) const { return bytes.data() + i * bytesOf(type); }
  std::byte* at(int64_t i) { return bytes.data() + i * bytesOf(type); }

  template <typename T>
  std::vector<T> as() const {
    REQUIRE(type == typeOf<T>());
    std::vector<T> values(static_cast<size_t>(count()));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  /** As what a step computes in, or as any other type of C++'s. */
  template <typename C>
  C read(int64_t i) const {
    return withElement(type, [&](auto element) {
      std::memcpy(static_cast<void*>(&element), at(i), sizeof element);
      return elementOf<C>(exactOf(element));
    });
  }
  template <typename C>
  void write(int64_t i, C value) {
    withElement(type, [&](auto like) {
      const auto element = elementOf<decltype(like)>(exactOf(value));
      std::memcpy(at(i), &element, sizeof element);
    });
  }
};

/** Calls `body` with what a step computes in. */
template <typename Body>
auto withComputed(ElementType compute, const Body& body) {
  switch (computeOf(compute)) {
    case ElementType::float32: return body(float{});
    case ElementType::float64: return body(double{});
    case ElementType::uint64: return body(uint64_t{});
    default: return body(int64_t{});
  }
}

/** Fails at the first element that is not the same. */
inline void requireSame(const Elements& actual, const Elements& expected) {
  REQUIRE(actual.type == expected.type);
  REQUIRE(actual.bytes.size() == expected.bytes.size());
  if (actual.bytes == expected.bytes) return;
  withElement(expected.type, [&](auto like) {
    auto a = like, b = like;
    for (int64_t i = 0; i < expected.count(); ++i) {
      std::memcpy(static_cast<void*>(&a), actual.at(i), sizeof a);
      std::memcpy(static_cast<void*>(&b), expected.at(i), sizeof b);
      if (!isSame(a, b)) FAIL("element " << i << " is " << shown(a) << ", not " << shown(b));
    }
  });
}

// ---------------------------------------------------------------------------------------------------------- random

/** Any bits, and around the bounds of all types. */
template <typename T, typename Random>
std::vector<T> widelySpread(Random& random) {
  std::vector<T> values(500);
  for (T& value : values) {
    const auto bits = static_cast<uint64_t>(random.bits());
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    // Of a byte the few bits that count
    if constexpr (kIsSmall<T>) value = elementOf<T>(exactOf(value));
  }
  if constexpr (std::is_same_v<T, Boolean>) {
    values.push_back({0}), values.push_back({1});
  } else {
    for (int power = 0; power < 64; ++power) {
      for (const int beside : {-1, 0, 1}) {
        const Int128 bound = (static_cast<Int128>(1) << power) + beside;
        values.push_back(elementOf<T>(bound)), values.push_back(elementOf<T>(-bound));
      }
    }
  }
  if constexpr (kIsHalf<T> || isSmallFloat<T>() || std::is_floating_point_v<T>) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const double real : {0.0, 0.1, 0.5, 1.9, 127.5, 128.9, 255.5, 3e9, 9223372036854775808.0, 1e19, 1e20, 1e-8,
                              1e-40, 1e-45, 65504.0, 65519.0, 65520.0, kInfinity}) {
      values.push_back(elementOf<T>(real)), values.push_back(elementOf<T>(-real));
    }
    values.push_back(elementOf<T>(std::numeric_limits<double>::quiet_NaN()));
  }
  return values;
}

template <typename Random>
Elements widelySpread(ElementType type, Random& random) {
  return withElement(type, [&](auto like) { return Elements(widelySpread<decltype(like)>(random)); });
}

/** From -4 to 4, or to 8 without a sign: sums and products of a few are exact in all types, and many are equal. */
template <typename Random>
Elements smallIntegers(ElementType type, int64_t count, Random& random) {
  Elements elements(type, count);
  const bool isUnsigned = withElement(type, [](auto like) { return std::is_unsigned_v<decltype(like)>; });
  for (int64_t i = 0; i < count; ++i) {
    elements.write(i, type == ElementType::boolean ? random.from(0, 1)
                      : isUnsigned                 ? random.from(0, 8)
                                                   : random.from(-4, 4));
  }
  return elements;
}

/** Integers of any bits; floats of either sign that are neither so large nor so small that products leave the floats.
 */
template <typename Random>
Elements anyNumbers(ElementType type, int64_t count, Random& random) {
  Elements elements(type, count);
  for (int64_t i = 0; i < count; ++i) {
    if (isReal(type)) {
      elements.write(i, static_cast<double>(random.from(-4096, 4096)) / 1024);
    } else {
      const auto bits = static_cast<uint64_t>(random.bits());
      std::memcpy(elements.at(i), &bits, static_cast<size_t>(bytesOf(type)));
    }
  }
  return elements;
}

/** Where they are floats, NaN and infinities at random places. */
template <typename Random>
void putSpecials(Elements& elements, Random& random) {
  if (!isReal(elements.type) || elements.count() == 0) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double special : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, -0.0}) {
    elements.write(random.from(0, elements.count() - 1), special);
  }
}

}  // namespace warpconv::test
