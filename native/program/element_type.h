#pragma once

#include <cstdint>

#include "host_device.h"

namespace warpconv::program {

/** Types of elements. A boolean is stored as one byte, of which any but zero is true. */
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
  boolean
};

/** Bytes of one element. */
WARPCONV_HOST_DEVICE constexpr int64_t widthOf(ElementType type) {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8:
    case ElementType::boolean: return 1;
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
