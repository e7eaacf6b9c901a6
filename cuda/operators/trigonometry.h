#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "host_device.h"

/**
 * Sine and cosine of any float to within half a unit in the last place and a little. CUDA's own keep an array on the
 * stack for large arguments, which would give one to every kernel that may call them.
 */
namespace warpconv::cuda::operators {

/** An angle as quarter turns, of which the lowest two bits count, and a rest of at most an eighth, in radians. */
struct QuarterTurns {
  unsigned quarters;
  double rest;
};

/** Of 1 <= |x| < infinity: 2 / pi to 222 bits, of which those that count are multiplied (Payne and Hanek, 1983). */
WARPCONV_HOST_DEVICE inline QuarterTurns largeQuarterTurns(float x) {
  static constexpr uint32_t kTwoOverPi[] = {0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770,
                                            0x36d8a566, 0x4f10e410, 0x7f9458ea};
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t fraction = bits << 8 | 0x80000000u;
  const uint32_t exponent = (bits >> 23 & 0xff) - 126;
  const uint32_t word = exponent / 32, shift = exponent % 32;
  uint32_t high = word == 0 ? 0 : kTwoOverPi[word - 1];
  uint32_t middle = kTwoOverPi[word], low = kTwoOverPi[word + 1];
  if (shift != 0) {
    high = high << shift | middle >> (32 - shift);
    middle = middle << shift | low >> (32 - shift);
    low = low << shift | kTwoOverPi[word + 2] >> (32 - shift);
  }
  // The product in quarter turns, with 62 bits after the point.
  uint64_t turns = uint64_t{fraction} * low >> 32;
  turns += uint64_t{fraction} * middle;
  turns += uint64_t{fraction * high} << 32;
  constexpr double kUnit = 1.5707963267948966 / 4611686018427387904.0;
  const auto quarters = static_cast<unsigned>((turns + (uint64_t{1} << 61)) >> 62);
  const double rest = static_cast<double>(static_cast<int64_t>(turns - (uint64_t{quarters} << 62))) * kUnit;
  return x < 0.0f ? QuarterTurns{0u - quarters, -rest} : QuarterTurns{quarters, rest};
}

/** NaN where there is none. */
WARPCONV_HOST_DEVICE inline QuarterTurns quarterTurns(float x) {
  // Far below 2^31, up to which a quarter turn in two doubles is enough.
  if (fabsf(x) > 65536.0f && fabsf(x) < INFINITY) return largeQuarterTurns(x);
  const double quarters = rint(static_cast<double>(x) * 0.63661977236758134);
  const double rest = fma(-quarters, 6.123233995736766e-17, fma(-quarters, 1.5707963267948966, static_cast<double>(x)));
  // NaN and infinity leave NaN in the rest.
  return {static_cast<unsigned>(static_cast<int>(fabsf(x) <= 65536.0f ? quarters : 0.0)), rest};
}

/** Of `quarters` quarter turns and the rest, by the first terms of the series: what is left out is below 1e-10 of it.
 */
WARPCONV_HOST_DEVICE inline float sineOf(unsigned quarters, double rest) {
  const double x = rest * rest;
  const double sine =
      rest * (1 + x * (-1.0 / 6 + x * (1.0 / 120 + x * (-1.0 / 5040 + x * (1.0 / 362880 - x / 39916800)))));
  const double cosine = 1 + x * (-1.0 / 2 + x * (1.0 / 24 + x * (-1.0 / 720 + x * (1.0 / 40320 - x / 3628800))));
  const double result = quarters % 2 == 0 ? sine : cosine;
  return static_cast<float>(quarters / 2 % 2 == 0 ? result : -result);
}

WARPCONV_HOST_DEVICE inline float sine(float x) {
  const QuarterTurns angle = quarterTurns(x);
  return x == 0.0f ? x : sineOf(angle.quarters, angle.rest);
}

WARPCONV_HOST_DEVICE inline float cosine(float x) {
  const QuarterTurns angle = quarterTurns(x);
  return sineOf(angle.quarters + 1, angle.rest);
}

}  // namespace warpconv::cuda::operators
