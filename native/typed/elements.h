#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "host_device.h"
#include "program/element_type.h"
#include "typed/small_floats.h"

/**
 * Elements of any type, read as one of the types C that are computed in: float, double, int64_t or uint64_t; and
 * written back.
 */
namespace warpconv::typed {

using program::ElementType;

namespace detail {

// Device code may use the values of constants, but call no function of the host for them.
template <typename T>
inline constexpr T kLeast = std::numeric_limits<T>::min();
template <typename T>
inline constexpr T kMost = std::numeric_limits<T>::max();
/** Exact, unlike the most that 64 bits hold. */
template <typename T>
inline constexpr double kBeyond = 2.0 * static_cast<double>(kMost<T> / 2 + 1);

/** What is cut off lies towards zero; what does not fit becomes the nearest bound, and NaN zero. */
template <typename To>
WARPCONV_HOST_DEVICE To toInteger(double value) {
  if (value != value) return 0;
  if (value <= static_cast<double>(kLeast<To>)) return kLeast<To>;
  return value >= kBeyond<To> ? kMost<To> : static_cast<To>(value);
}

template <typename C, typename Real>
WARPCONV_HOST_DEVICE C ofReal(Real value) {
  if constexpr (std::is_floating_point_v<C>) {
    return static_cast<C>(value);
  } else {
    return toInteger<C>(static_cast<double>(value));
  }
}

/** Integers keep their low bits. */
template <typename Integer, typename C>
WARPCONV_HOST_DEVICE Integer integerOf(C value) {
  if constexpr (std::is_floating_point_v<C>) {
    return toInteger<Integer>(static_cast<double>(value));
  } else {
    return static_cast<Integer>(value);
  }
}

/** Of an integer, or of what a float becomes as an int8_t, the low bits, the highest of which may be a sign. */
template <int kBits, typename C>
WARPCONV_HOST_DEVICE int8_t lowBits(C value) {
  constexpr int kCut = 8 - kBits;
  return static_cast<int8_t>(static_cast<int8_t>(integerOf<int8_t>(value) << kCut) >> kCut);
}
template <int kBits, typename C>
WARPCONV_HOST_DEVICE uint8_t lowBitsUnsigned(C value) {
  return static_cast<uint8_t>(integerOf<int8_t>(value) & ((1 << kBits) - 1));
}

/** What rounds to a smaller float as the value itself does. */
template <typename C>
WARPCONV_HOST_DEVICE float beforeSmall(C value) {
  if constexpr (std::is_same_v<C, float>) {
    return value;
  } else if constexpr (std::is_same_v<C, double>) {
    return toOddFloat(value);
  } else {
    // Beyond 53 bits a double would round first: the last bit that it has stands for those that it has no room for.
    constexpr C kCut = 0xfff;
    const C high = value >> 53;
    const bool isLong = high != 0 && high != static_cast<C>(-1);
    const C odd = isLong && (value & kCut) != 0 ? (value & ~kCut) | (kCut / 2 + 1) : value;
    return toOddFloat(static_cast<double>(odd));
  }
}

}  // namespace detail

/** Floats that are read as integers are cut towards zero, to the nearest bound where they do not fit; NaN is 0 then. */
template <typename C>
WARPCONV_HOST_DEVICE C readAs(ElementType type, const void* from, int64_t i) {
  const auto at = [&](auto like) { return static_cast<const decltype(like)*>(from)[i]; };
  switch (type) {
    case ElementType::float32: return detail::ofReal<C>(at(float{}));
    case ElementType::float64: return detail::ofReal<C>(at(double{}));
    case ElementType::float16: return detail::ofReal<C>(Float16::decode(at(uint16_t{})));
    case ElementType::bfloat16: return detail::ofReal<C>(BFloat16::decode(at(uint16_t{})));
    case ElementType::float8e4m3fn: return detail::ofReal<C>(Float8E4M3FN::decode(at(uint8_t{})));
    case ElementType::float8e4m3fnuz: return detail::ofReal<C>(Float8E4M3FNUZ::decode(at(uint8_t{})));
    case ElementType::float8e5m2: return detail::ofReal<C>(Float8E5M2::decode(at(uint8_t{})));
    case ElementType::float8e5m2fnuz: return detail::ofReal<C>(Float8E5M2FNUZ::decode(at(uint8_t{})));
    case ElementType::float8e8m0: return detail::ofReal<C>(Float8E8M0::decode(at(uint8_t{})));
    case ElementType::float4e2m1: return detail::ofReal<C>(Float4E2M1::decode(at(uint8_t{})));
    case ElementType::int2:
    case ElementType::int4:
    case ElementType::int8: return static_cast<C>(at(int8_t{}));
    case ElementType::int16: return static_cast<C>(at(int16_t{}));
    case ElementType::int32: return static_cast<C>(at(int32_t{}));
    case ElementType::int64: return static_cast<C>(at(int64_t{}));
    case ElementType::uint2:
    case ElementType::uint4:
    case ElementType::uint8: return static_cast<C>(at(uint8_t{}));
    case ElementType::uint16: return static_cast<C>(at(uint16_t{}));
    case ElementType::uint32: return static_cast<C>(at(uint32_t{}));
    case ElementType::uint64: return static_cast<C>(at(uint64_t{}));
    case ElementType::boolean: return static_cast<C>(at(uint8_t{}) != 0);
  }
  return C{};
}

/** Integers keep their low bits; floats become integers as readAs has it. */
template <typename C>
WARPCONV_HOST_DEVICE void writeAs(ElementType type, C value, void* to, int64_t i) {
  const auto put = [&](auto element) { static_cast<decltype(element)*>(to)[i] = element; };
  const auto small = [&](auto format) { return format.encode(detail::beforeSmall(value)); };
  switch (type) {
    case ElementType::float32: return put(static_cast<float>(value));
    case ElementType::float64: return put(static_cast<double>(value));
    case ElementType::float16: return put(static_cast<uint16_t>(small(Float16{})));
    case ElementType::bfloat16: return put(static_cast<uint16_t>(small(BFloat16{})));
    case ElementType::float8e4m3fn: return put(static_cast<uint8_t>(small(Float8E4M3FN{})));
    case ElementType::float8e4m3fnuz: return put(static_cast<uint8_t>(small(Float8E4M3FNUZ{})));
    case ElementType::float8e5m2: return put(static_cast<uint8_t>(small(Float8E5M2{})));
    case ElementType::float8e5m2fnuz: return put(static_cast<uint8_t>(small(Float8E5M2FNUZ{})));
    case ElementType::float8e8m0: return put(static_cast<uint8_t>(small(Float8E8M0{})));
    case ElementType::float4e2m1: return put(static_cast<uint8_t>(small(Float4E2M1{})));
    case ElementType::int8: return put(detail::integerOf<int8_t>(value));
    case ElementType::int16: return put(detail::integerOf<int16_t>(value));
    case ElementType::int32: return put(detail::integerOf<int32_t>(value));
    case ElementType::int64: return put(detail::integerOf<int64_t>(value));
    case ElementType::uint8: return put(detail::integerOf<uint8_t>(value));
    case ElementType::uint16: return put(detail::integerOf<uint16_t>(value));
    case ElementType::uint32: return put(detail::integerOf<uint32_t>(value));
    case ElementType::uint64: return put(detail::integerOf<uint64_t>(value));
    case ElementType::int4: return put(detail::lowBits<4>(value));
    case ElementType::uint4: return put(detail::lowBitsUnsigned<4>(value));
    case ElementType::int2: return put(detail::lowBits<2>(value));
    case ElementType::uint2: return put(detail::lowBitsUnsigned<2>(value));
    case ElementType::boolean: return put(static_cast<uint8_t>(value != C{}));
  }
}

/** Calls `body` with a value of the C++ type in which elements of a step's type are computed. */
template <typename Body>
auto withCompute(ElementType type, const Body& body) {
  switch (type) {
    case ElementType::float64: return body(double{});
    case ElementType::float32:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::float8e4m3fn:
    case ElementType::float8e4m3fnuz:
    case ElementType::float8e5m2:
    case ElementType::float8e5m2fnuz:
    case ElementType::float8e8m0:
    case ElementType::float4e2m1: return body(float{});
    case ElementType::uint64: return body(uint64_t{});
    default: return body(int64_t{});
  }
}

}  // namespace warpconv::typed
