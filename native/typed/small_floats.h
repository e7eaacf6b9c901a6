#pragma once

#include <cstdint>
#include <cstring>

#include "host_device.h"

/**
 * Floats of 16 bits and less as their bits: IEEE's binary16; bfloat16, the upper half of a float; and ONNX's floats of
 * 8 and 4 bits, which are those of "FP8 Formats for Deep Learning" (arXiv:2209.05433), "8-bit Numerical Formats for
 * Deep Neural Networks" (arXiv:2206.02915) and OCP's microscaling formats.
 */
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

/**
 * What a format has besides finite numbers: infinities, and NaN above them, as IEEE's have; NaN alone, as the greatest
 * magnitude or in the place of -0; or nothing.
 */
enum class Specials { infinitiesAndNaN, greatestIsNaN, minusZeroIsNaN, none };

/** A sign, an exponent that counts from `kExponentBias`, and a fraction, in so many bits. */
template <int kWidth, int kFraction, int kExponentBias, Specials kSpecials>
struct SmallFloat {
  static constexpr uint32_t kSign = 1u << (kWidth - 1);
  static constexpr uint32_t kMagnitude = kSign - 1;
  static constexpr uint32_t kInfinity = kMagnitude >> kFraction << kFraction;
  /** The greatest finite magnitude */
  static constexpr uint32_t kGreatest = kSpecials == Specials::infinitiesAndNaN ? kInfinity - 1
                                        : kSpecials == Specials::greatestIsNaN  ? kMagnitude - 1
                                                                                : kMagnitude;
  /** The one that is made. A format without NaN has -0 instead, as ONNX's reference does. */
  static constexpr uint32_t kNaN = kSpecials == Specials::infinitiesAndNaN ? kInfinity | 1u << (kFraction - 1)
                                   : kSpecials == Specials::greatestIsNaN  ? kMagnitude
                                                                           : kSign;
  static constexpr uint32_t kBeyond = kSpecials == Specials::none ? kGreatest : kGreatest + 1;
  /** Bits of a float's fraction that are cut off, and what its exponents count more */
  static constexpr int kCut = 23 - kFraction;
  static constexpr uint32_t kFloatBias = 127, kRebias = kFloatBias - kExponentBias;
  static constexpr uint32_t kFloatInfinity = 0x7f800000u, kFloatNaN = 0x7fc00000u;

  /** Exact. */
  static WARPCONV_HOST_DEVICE float decode(uint32_t code) {
    const uint32_t magnitude = code & kMagnitude;
    // The product with a power of two brings subnormal numbers along.
    uint32_t bits = bitsOf(floatOf(magnitude << kCut) * floatOf((kFloatBias + kRebias) << 23));
    if constexpr (kSpecials == Specials::infinitiesAndNaN) {
      bits = magnitude >= kInfinity ? magnitude << kCut | kFloatInfinity : bits;
    } else if constexpr (kSpecials != Specials::none) {
      const bool isNaN = kSpecials == Specials::greatestIsNaN ? magnitude == kMagnitude : code == kSign;
      bits = isNaN ? kFloatNaN : bits;
    }
    return floatOf(bits | (code & kSign) << (32 - kWidth));
  }

  /** To the nearest, of two to the even one. Beyond the greatest lies infinity, else NaN, else the greatest itself. */
  static WARPCONV_HOST_DEVICE uint32_t encode(float value) {
    // The least normal number; and the float whose last place is that of subnormal numbers, so that an addition rounds.
    constexpr uint32_t kNormal = (kRebias + 1) << 23, kRounding = (kRebias + 1 + kCut) << 23;
    const uint32_t bits = bitsOf(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = bits >> 31 << (kWidth - 1);
    const uint32_t subnormal = bitsOf(floatOf(magnitude) + floatOf(kRounding)) - kRounding;
    const uint32_t half = (1u << (kCut - 1)) - 1 + (magnitude >> kCut & 1u);
    const uint32_t normal = (magnitude - (kRebias << 23) + half) >> kCut;
    const uint32_t nearest = magnitude < kNormal ? subnormal : normal;
    const uint32_t code = (nearest > kGreatest ? kBeyond : nearest) | sign;
    // There is one NaN: which operand's comes out of a sum is not the same everywhere.
    if (magnitude > kFloatInfinity) return kNaN;
    if constexpr (kSpecials == Specials::minusZeroIsNaN) {
      if (nearest == 0) return 0;
      if (nearest > kGreatest) return kNaN;
    }
    return code;
  }
};

using Float16 = SmallFloat<16, 10, 15, Specials::infinitiesAndNaN>;
using BFloat16 = SmallFloat<16, 7, 127, Specials::infinitiesAndNaN>;
using Float8E4M3FN = SmallFloat<8, 3, 7, Specials::greatestIsNaN>;
using Float8E4M3FNUZ = SmallFloat<8, 3, 8, Specials::minusZeroIsNaN>;
using Float8E5M2 = SmallFloat<8, 2, 15, Specials::infinitiesAndNaN>;
using Float8E5M2FNUZ = SmallFloat<8, 2, 16, Specials::minusZeroIsNaN>;
using Float4E2M1 = SmallFloat<4, 1, 1, Specials::none>;

/** A power of two without a sign: an exponent alone, of which the greatest is NaN. */
struct Float8E8M0 {
  /** 2^-127 is a subnormal float. */
  static WARPCONV_HOST_DEVICE float decode(uint32_t code) {
    if (code == 0xffu) return floatOf(0x7fc00000u);
    return code == 0 ? floatOf(0x00400000u) : floatOf(code << 23);
  }

  /** The least that is not below the magnitude. */
  static WARPCONV_HOST_DEVICE uint32_t encode(float value) {
    const uint32_t magnitude = bitsOf(value) & 0x7fffffffu;
    if (magnitude > 0x7f000000u) return 0xffu;
    return magnitude <= 0x00400000u ? 0 : (magnitude + 0x7fffffu) >> 23;
  }
};

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
