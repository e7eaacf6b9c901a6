#pragma once

#include <cstdint>
#include <limits>

#include "cuda/kernel/host_device.h"
#include "program/steps.h"

/**
 * Elements of any type as kernels of casts convert them: by way of a double or a 64-bit integer, of which one holds
 * every element exactly. Nothing here is particular to a GPU, so that it is tested without one.
 */
namespace warpconv::cuda::operators {

using CastType = program::CastStep::Type;

/** `real` counts where it is a float, and `integer` otherwise. */
struct Number {
  bool isReal;
  double real;
  int64_t integer;
};

namespace detail {

WARPCONV_HOST_DEVICE inline Number ofReal(double value) { return {true, value, 0}; }
WARPCONV_HOST_DEVICE inline Number ofInteger(int64_t value) { return {false, 0, value}; }

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
WARPCONV_HOST_DEVICE To toInteger(const Number& value) {
  if (!value.isReal) return static_cast<To>(value.integer);
  if (value.real != value.real) return 0;
  if (value.real <= static_cast<double>(kLeast<To>)) return kLeast<To>;
  return value.real >= kBeyond<To> ? kMost<To> : static_cast<To>(value.real);
}

}  // namespace detail

WARPCONV_HOST_DEVICE inline Number readNumber(CastType type, const void* from, int i) {
  using namespace detail;
  switch (type) {
    case CastType::float32: return ofReal(static_cast<double>(static_cast<const float*>(from)[i]));
    case CastType::float64: return ofReal(static_cast<const double*>(from)[i]);
    case CastType::int8: return ofInteger(static_cast<const int8_t*>(from)[i]);
    case CastType::int16: return ofInteger(static_cast<const int16_t*>(from)[i]);
    case CastType::int32: return ofInteger(static_cast<const int32_t*>(from)[i]);
    case CastType::int64: return ofInteger(static_cast<const int64_t*>(from)[i]);
    case CastType::uint8: return ofInteger(static_cast<const uint8_t*>(from)[i]);
    case CastType::uint16: return ofInteger(static_cast<const uint16_t*>(from)[i]);
    case CastType::uint32: return ofInteger(static_cast<const uint32_t*>(from)[i]);
    case CastType::boolean: return ofInteger(static_cast<const uint8_t*>(from)[i] != 0);
  }
  return ofInteger(0);
}

WARPCONV_HOST_DEVICE inline void writeNumber(CastType type, const Number& x, void* to, int i) {
  using namespace detail;
  switch (type) {
    case CastType::float32:
      static_cast<float*>(to)[i] = x.isReal ? static_cast<float>(x.real) : static_cast<float>(x.integer);
      return;
    case CastType::float64: static_cast<double*>(to)[i] = x.isReal ? x.real : static_cast<double>(x.integer); return;
    case CastType::int8: static_cast<int8_t*>(to)[i] = toInteger<int8_t>(x); return;
    case CastType::int16: static_cast<int16_t*>(to)[i] = toInteger<int16_t>(x); return;
    case CastType::int32: static_cast<int32_t*>(to)[i] = toInteger<int32_t>(x); return;
    case CastType::int64: static_cast<int64_t*>(to)[i] = toInteger<int64_t>(x); return;
    case CastType::uint8: static_cast<uint8_t*>(to)[i] = toInteger<uint8_t>(x); return;
    case CastType::uint16: static_cast<uint16_t*>(to)[i] = toInteger<uint16_t>(x); return;
    case CastType::uint32: static_cast<uint32_t*>(to)[i] = toInteger<uint32_t>(x); return;
    case CastType::boolean: static_cast<uint8_t*>(to)[i] = x.isReal ? x.real != 0 : x.integer != 0; return;
  }
}

}  // namespace warpconv::cuda::operators
