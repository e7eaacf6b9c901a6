#pragma once

#include <cstdint>
#include <cstring>

#include "host_device.h"

/** Floats of 16 bits as their bits: IEEE's binary16, and bfloat16, the upper half of a float. */
namespace warpconv::typed {

WARPCONV_HOST_DEVICE inline uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
WARPCONV_HOST_DEVICE inline float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/** Exact. */
WARPCONV_HOST_DEVICE inline float fromFloat16(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  // The exponents' biases are 15 and 127; the product brings subnormal numbers along.
  const float scaled = floatOf(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude << 13 | 0x7f800000u;
  const uint32_t bits = magnitude >= 0x7c00u ? special : bitsOf(scaled);
  return floatOf(bits | (half & 0x8000u) << 16);
}

/** To the nearest, of two to the even one. */
WARPCONV_HOST_DEVICE inline uint16_t toFloat16(float value) {
  const uint32_t bits = bitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  // Below 2^-14 an addition rounds: the last place of 0.5 is 2^-24, as that of subnormal numbers is.
  const uint32_t subnormal = bitsOf(floatOf(magnitude) + 0.5f) - bitsOf(0.5f);
  const uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1u)) >> 13;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  // From 65520 on
  if (magnitude >= 0x477ff000u) half = 0x7c00u;
  // There is one NaN: which operand's comes out of a sum is not the same everywhere.
  if (magnitude > 0x7f800000u) return 0x7e00u;
  return static_cast<uint16_t>(half | sign);
}

/** Exact. */
WARPCONV_HOST_DEVICE inline float fromBFloat16(uint16_t half) { return floatOf(uint32_t{half} << 16); }

/** To the nearest, of two to the even one. */
WARPCONV_HOST_DEVICE inline uint16_t toBFloat16(float value) {
  const uint32_t bits = bitsOf(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return static_cast<uint16_t>(rounded);
}

/**
 * The float towards zero with its last bit set where anything was cut off: rounded to less than 23 bits, it becomes
 * what the double itself would.
 */
WARPCONV_HOST_DEVICE inline float toOddFloat(double value) {
  const auto nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  const bool isBeyond = value < 0 ? back < value : back > value;
  return floatOf((bitsOf(nearest) - (isBeyond ? 1u : 0u)) | 1u);
}

}  // namespace warpconv::typed
