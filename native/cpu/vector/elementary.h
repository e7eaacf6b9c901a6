#pragma once

#include <cstdint>

/**
 * Elementary functions of one float, without branches and calls, so that the compiler turns loops over them into vector
 * code. Everything is local to the file that includes it, so that the linker cannot hand code of a wider instruction
 * set to a narrower processor; for the same reason nothing inline of the standard library is used.
 *
 * The polynomials are minimax fits in the stated range, their coefficients rounded one after the other, each with the
 * later ones fitted anew. Errors against double precision, over every 61st float and the worst of the three
 * instruction sets, in units in the last place: exp 1.00, log 0.86, tanh 1.30, erf 1.07, softplus 1.69, sigmoid 2.30,
 * silu 3.06, mish 4.56; of positive numbers gelu 1.65, with tanh 2.35.
 */
namespace warpconv {
namespace {

inline uint32_t bitsOf(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float floatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Comparisons are written so that NaN fails them all and falls through unchanged.
inline float atLeast(float x, float low) { return x < low ? low : x; }
inline float atMost(float x, float high) { return x > high ? high : x; }
inline float absolute(float x) { return floatOf(bitsOf(x) & 0x7FFFFFFFu); }
inline float withSignOf(float magnitude, float x) { return floatOf(bitsOf(magnitude) | (bitsOf(x) & 0x80000000u)); }
// One choice after the other, because GCC 12 makes branches of nested calls with both in one condition.
inline float minimum(float a, float b) {
  const float smaller = a < b ? a : b;
  return a != a ? a : smaller;
}
/** Of floats, or lane by lane of vectors */
template <typename Values>
Values maximum(Values a, Values b) {
  const Values larger = a > b ? a : b;
  return a != a ? a : larger;
}

/** To the nearest integer, ties to even: added to 2^23, a float keeps no fraction. */
inline float roundToEven(float x) {
  const float magnitude = absolute(x);
  const float rounded = (magnitude + 0x1p23f) - 0x1p23f;
  return withSignOf(magnitude < 0x1p23f ? rounded : magnitude, x);
}
inline float roundDown(float x) {
  const float rounded = roundToEven(x);
  return rounded > x ? rounded - 1.0f : rounded;
}
inline float roundUp(float x) {
  const float rounded = roundToEven(x);
  return withSignOf(absolute(rounded < x ? rounded + 1.0f : rounded), x);
}

constexpr float kLn2High = 0x1.62e4p-1f;  // 16 bits, so that its product with an exponent is exact
constexpr float kLn2Low = 0x1.7f7d1cp-20f;

/** e^x = 2^exponent * (1 + rest), with rest between 2^-1/2 - 1 and 2^1/2 - 1. */
struct Power {
  int32_t exponent;
  float rest;
};

/** For x of at least -105 and at most 89, or NaN. */
inline Power splitPower(float x) {
  // Added to 1.5 * 2^23, a float keeps its nearest integer in its last bits.
  constexpr float kShift = 0x1.8p23f;
  const float shifted = x * 0x1.715476p0f + kShift;
  const float exponent = shifted - kShift;
  const float r = (x - exponent * kLn2High) - exponent * kLn2Low;
  // (e^r - 1 - r) / r^2 for |r| <= 0.35, relative error of e^r 3.4e-9
  float tail = 0.0013820742f;
  tail = tail * r + 0.00836924836f;
  tail = tail * r + 0.041668281f;
  tail = tail * r + 0.166665167f;
  tail = tail * r + 0.49999994f;
  return {static_cast<int32_t>(bitsOf(shifted) - bitsOf(kShift)), r + r * r * tail};
}

/** 2^exponent for normal floats */
inline float powerOfTwo(int32_t exponent) { return floatOf(static_cast<uint32_t>(exponent + 127) << 23); }

inline float exponential(float x) {
  const Power power = splitPower(atMost(atLeast(x, -105.0f), 89.0f));
  // In two steps, because 2^exponent may be no normal float where e^x is one or is denormal.
  const int32_t half = power.exponent >> 1;
  const float scale = powerOfTwo(half);
  return (power.rest * scale + scale) * powerOfTwo(power.exponent - half);
}

/** e^x - 1 for x <= 80, or NaN */
inline float expm1UpTo80(float x) {
  const Power power = splitPower(atLeast(x, -25.0f));
  const float scale = powerOfTwo(power.exponent);
  return power.rest * scale + (scale - 1.0f);
}

/** alpha * (e^(x / alpha) - 1) below zero, which grows without bounds where alpha is negative */
inline float celu(float x, float alpha) {
  const float quotient = x / alpha;
  const float bounded = alpha * expm1UpTo80(atMost(quotient, 80.0f));
  // In two factors, because alpha may bring a power that is no float back among them.
  const float root = exponential(0.5f * quotient);
  const float large = alpha * root * root;
  const float result = quotient > 80.0f ? large : bounded;
  // The quotient may underflow where the result, which is x to the last bit, does not.
  const float ofNegative = absolute(quotient) < 0x1p-25f ? x : result;
  return x < 0.0f ? ofNegative : x;
}

/** exponent * log(2) + log(1 + f) for f between 2^-1/2 - 1 and 2^1/2 - 1 */
inline float logOf(float exponent, float f) {
  // (log(1 + f) - f + f^2 / 2) / f^3, relative error of log(1 + f) 7.7e-10
  float tail = 0.0674793124f;
  tail = tail * f - 0.116694614f;
  tail = tail * f + 0.118837126f;
  tail = tail * f - 0.124063231f;
  tail = tail * f + 0.14220354f;
  tail = tail * f - 0.166679859f;
  tail = tail * f + 0.200020716f;
  tail = tail * f - 0.250000089f;
  tail = tail * f + 0.333333135f;
  const float square = f * f;
  const float small = square * (f * tail - 0.5f) + exponent * kLn2Low;
  return exponent * kLn2High + (f + small);
}

inline float logarithm(float x) {
  const bool isDenormal = x < 0x1p-126f;
  const uint32_t bits = bitsOf(isDenormal ? x * 0x1p23f : x);
  // Of 2^-1/2: what lies above has an exponent of at least 0.
  constexpr uint32_t kLow = 0x3F3504F3u;
  const int32_t exponent = static_cast<int32_t>(bits - kLow) >> 23;
  const float mantissa = floatOf(bits - (static_cast<uint32_t>(exponent) << 23));
  const float result = logOf(static_cast<float>(isDenormal ? exponent - 23 : exponent), mantissa - 1.0f);
  const float ofZeroOrLess = x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
  return x <= 0.0f ? ofZeroOrLess : (x < __builtin_inff() ? result : x);
}

/** log(1 + u) for 0 <= u <= 1, or NaN */
inline float log1pOfUnit(float u) {
  const bool isLarge = u > 0.41421356f;
  return logOf(isLarge ? 1.0f : 0.0f, isLarge ? 0.5f * u - 0.5f : u);
}

inline float sigmoid(float x) {
  const float power = exponential(-absolute(x));
  return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}

inline float silu(float x) { return x * sigmoid(x); }

/** Divided first, because x times 6 may overflow. */
inline float hardSwish(float x) { return x * (atMost(atLeast(x + 3.0f, 0.0f), 6.0f) / 6.0f); }

inline float hyperbolicTangent(float x) {
  const float magnitude = absolute(x);
  const float square = x * x;
  // (tanh(x) / x - 1) / x^2 for |x| <= 0.625, relative error of tanh(x) 1.8e-10
  float tail = 0.00215268414f;
  tail = tail * square - 0.00819001347f;
  tail = tail * square + 0.021706894f;
  tail = tail * square - 0.0539481789f;
  tail = tail * square + 0.133332208f;
  tail = tail * square - 0.333333313f;
  const float large = 1.0f - 2.0f / (exponential(2.0f * magnitude) + 1.0f);
  return withSignOf(magnitude < 0.625f ? magnitude + magnitude * square * tail : large, x);
}

inline float errorFunction(float x) {
  const float magnitude = absolute(x);
  const float square = x * x;
  // erf(x) / x - 1 for |x| <= 0.93, relative error of erf(x) 9.0e-10
  float small = 7.99664995e-05f;
  small = small * square - 0.000804976968f;
  small = small * square + 0.00519240508f;
  small = small * square - 0.0268557314f;
  small = small * square + 0.112836257f;
  small = small * square - 0.376126289f;
  small = small * square + 0.128379166f;
  // -log(erfc(t)) / t - 1 for 0.92 <= t <= 4, relative error of erf(t) 3.0e-9; from 4 on erf rounds to 1
  const float t = atMost(magnitude, 4.0f);
  float large = -0.000213991167f;
  large = large * t + 0.00321499095f;
  large = large * t - 0.0228900388f;
  large = large * t + 0.105261914f;
  large = large * t + 0.635718286f;
  large = large * t + 0.128514364f;
  const float complement = exponential(-(t + t * large));
  return withSignOf(magnitude < 0.925f ? magnitude + magnitude * small : 1.0f - complement, x);
}

inline float softplus(float x) { return atLeast(x, 0.0f) + log1pOfUnit(exponential(-absolute(x))); }

/** tanh(log(1 + e^x)) = (e^2x + 2 e^x) / (e^2x + 2 e^x + 2), which is 1 from 20 on */
inline float mish(float x) {
  const float power = exponential(atMost(x, 20.0f));
  const float sum = power * (power + 2.0f);
  return x * (sum / (sum + 2.0f));
}

/** (1 + tanh(u)) / 2 = sigmoid(2 u), without the cancellation; the factors are 2 sqrt(2 / pi) and 0.044715 of it. */
inline float gelu(float x) { return 0.5f * x * (1.0f + errorFunction(x * 0.707106781f)); }
inline float geluTanh(float x) { return x * sigmoid(x * (1.59576912f + 0.0713548163f * x * x)); }

}  // namespace
}  // namespace warpconv
