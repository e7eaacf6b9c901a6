#pragma once

#include <cstdint>

#include "host_device.h"

namespace warpconv::program {

/**
 * Types of elements. A boolean is stored as one byte, of which any but zero is true; types of less than 8 bits in a
 * byte each, integers with a sign as an int8_t and the others in the low bits.
 */
enum class ElementType {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  boolean,
  float8e4m3fn,
  float8e4m3fnuz,
  float8e5m2,
  float8e5m2fnuz,
  float8e8m0,
  float4e2m1,
  int4,
  uint4,
  int2,
  uint2
};

/** Bytes of one element. */
WARPCONV_HOST_DEVICE constexpr int64_t widthOf(ElementType type) {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8:
    case ElementType::boolean:
    case ElementType::float8e4m3fn:
    case ElementType::float8e4m3fnuz:
    case ElementType::float8e5m2:
    case ElementType::float8e5m2fnuz:
    case ElementType::float8e8m0:
    case ElementType::float4e2m1:
    case ElementType::int4:
    case ElementType::uint4:
    case ElementType::int2:
    case ElementType::uint2: return 1;
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
    case ElementType::uint16: return 2;
    case ElementType::float32:
    case ElementType::int32:
    case ElementType::uint32: return 4;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::uint64: return 8;
  }
  return 8;
}

}  // namespace warpconv::program
