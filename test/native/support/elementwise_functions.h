#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "program/steps.h"
#include "support/operators_reference.h"

/**
 * The functions of elementwise steps with what they promise on either device, and points of their whole domain. The
 * tests of the CPU's loops, of the GPU's code and of the GPU itself share them.
 */
namespace warpconv::test {

using Operation = program::ElementwiseStep::Operation;

/** The greatest error in units in the last place of the exact result, and beside them in absolute terms. */
struct Bound {
  double ulps;
  double absolute = 0;
};

struct Function {
  Operation operation;
  double p, q;
  Bound cpu, gpu;
};

/** A rounding among the subnormal floats, times the hundred that follows. */
inline constexpr Bound kHundredSubnormals{0, 1.5e-43};

/**
 * Half a unit for each rounding of a formula. The CPU's bounds of polynomials are those of native/cpu/vector_loops. The
 * GPU's follow the table of maximum errors in the CUDA programming guide: exp 1, expm1 1, log 1, log1p 1, tanh 2, erf 2
 * and pow 4 units in the last place. Attributes have either sign, and are tiny and huge.
 */
inline const std::vector<Function>& functions() {
  constexpr double kMost = std::numeric_limits<float>::max(), kEndless = std::numeric_limits<float>::infinity();
  constexpr double kSubnormals = kHundredSubnormals.absolute;
  static const std::vector<Function> all = {
      {Operation::constant, 1.5, 0, {0}, {0}},
      {Operation::affine, 1.5, -0.25, {1}, {1}},
      {Operation::affine, -1e30, 1e30, {1}, {1}},
      {Operation::affine, 1e-30, -0.0, {1}, {1}},
      {Operation::affine, 0, 0, {1}, {1}},
      {Operation::negate, 0, 0, {0}, {0}},
      {Operation::absolute, 0, 0, {0}, {0}},
      {Operation::relu, 0, 0, {0}, {0}},
      {Operation::leakyRelu, 0.01, 0, {0.5}, {0.5}},
      {Operation::leakyRelu, -2.5, 0, {0.5}, {0.5}},
      {Operation::leakyRelu, 0, 0, {0.5}, {0.5}},
      {Operation::leakyRelu, 1e-30, 0, {0.5}, {0.5}},
      {Operation::leakyRelu, 1e30, 0, {0.5}, {0.5}},
      {Operation::clip, -3, 4, {0}, {0}},
      {Operation::clip, 2, 2, {0}, {0}},
      {Operation::clip, 0, kMost, {0}, {0}},
      {Operation::clip, -kMost, kMost, {0}, {0}},
      {Operation::clip, -kEndless, 1, {0}, {0}},
      {Operation::sigmoid, 0, 0, {3}, {4}},
      {Operation::hardSigmoid, 0.2, 0.5, {1}, {1}},
      {Operation::hardSigmoid, -1e30, 0.5, {1}, {1}},
      {Operation::hardSigmoid, 0, 0.25, {1}, {1}},
      {Operation::hardSigmoid, 1, -2, {1}, {1}},
      {Operation::hardSwish, 0, 0, {2}, {2}},
      {Operation::silu, 0, 0, {3.5, kSubnormals}, {5, kSubnormals}},
      {Operation::mish, 0, 0, {5.5, kSubnormals}, {6, kSubnormals}},
      {Operation::elu, 1.5, 0, {3}, {3}},
      {Operation::elu, -0.5, 0, {3}, {3}},
      {Operation::elu, 0, 0, {3}, {3}},
      {Operation::elu, 1e-30, 0, {3}, {3}},
      {Operation::elu, 1e30, 0, {3}, {3}},
      {Operation::selu, 1.67326319217681884765625, 1.05070102214813232421875, {4}, {4}},
      {Operation::selu, -2, -0.5, {4}, {4}},
      {Operation::celu, 0.75, 0, {5}, {5}},
      {Operation::celu, -0.1, 0, {5}, {5}},
      {Operation::celu, -2, 0, {5}, {5}},
      {Operation::celu, -1e-30, 0, {5}, {5}},
      {Operation::celu, 1e-30, 0, {5}, {5}},
      {Operation::celu, -1e30, 0, {5}, {5}},
      {Operation::celu, 1e30, 0, {5}, {5}},
      {Operation::gelu, 0, 0, {3}, {4}},
      {Operation::geluTanh, 0, 0, {4}, {5}},
      {Operation::tanh, 0, 0, {2}, {2.5}},
      {Operation::softplus, 0, 0, {3}, {4}},
      {Operation::softsign, 0, 0, {2}, {2}},
      {Operation::exp, 0, 0, {1.5}, {2}},
      {Operation::log, 0, 0, {1.5}, {2}},
      {Operation::sqrt, 0, 0, {0.5}, {0.5}},
      {Operation::reciprocal, 0, 0, {0.5}, {0.5}},
      {Operation::floor, 0, 0, {0}, {0}},
      {Operation::ceil, 0, 0, {0}, {0}},
      {Operation::round, 0, 0, {0}, {0}},
      {Operation::erf, 0, 0, {2}, {2.5}},
      {Operation::sign, 0, 0, {0}, {0}},
      {Operation::sin, 0, 0, {1}, {0.6}},
      {Operation::cos, 0, 0, {1}, {0.6}},
  };
  return all;
}

inline const std::vector<Function>& binaryFunctions() {
  static const std::vector<Function> all = {
      {Operation::add, 0, 0, {0.5}, {0.5}},      {Operation::subtract, 0, 0, {0.5}, {0.5}},
      {Operation::multiply, 0, 0, {0.5}, {0.5}}, {Operation::divide, 0, 0, {0.5}, {0.5}},
      {Operation::minimum, 0, 0, {0}, {0}},      {Operation::maximum, 0, 0, {0}, {0}},
      {Operation::power, 0, 0, {2}, {4.5}},      {Operation::prelu, 0, 0, {0.5}, {0.5}},
  };
  return all;
}

/** An activation of a convolution or product, with the function that it is. */
struct NamedActivation {
  const char* name;
  std::vector<double> parameters;
  Function function;
};

inline const std::vector<NamedActivation>& activations() {
  constexpr double kMost = std::numeric_limits<float>::max(), kSubnormals = kHundredSubnormals.absolute;
  static const std::vector<NamedActivation> all = {
      {"relu", {}, {Operation::relu, 0, 0, {0}, {0}}},
      {"relu6", {}, {Operation::clip, 0, 6, {0}, {0}}},
      {"clip", {-3, 4}, {Operation::clip, -3, 4, {0}, {0}}},
      {"clip", {0, kMost}, {Operation::clip, 0, kMost, {0}, {0}}},
      {"leakyRelu", {0.125}, {Operation::leakyRelu, 0.125, 0, {0.5}, {0.5}}},
      {"leakyRelu", {-2.5}, {Operation::leakyRelu, -2.5, 0, {0.5}, {0.5}}},
      {"sigmoid", {}, {Operation::sigmoid, 0, 0, {3}, {4}}},
      {"silu", {}, {Operation::silu, 0, 0, {3.5, kSubnormals}, {5, kSubnormals}}},
      {"hardSwish", {}, {Operation::hardSwish, 0, 0, {2}, {2}}},
  };
  return all;
}

inline const std::vector<float>& specialValues() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static const std::vector<float> all{
      0.0f,    -0.0f,  1e-45f,     -1e-45f,      1e-39f,        -1e-39f,   1.1754944e-38f, -1.1754944e-38f,
      1e-20f,  -1e-20f, 1e-7f,     -1e-7f,       0.5f,          -0.5f,     1.0f,           -1.0f,
      1.5f,    -1.5f,  2.5f,       -2.5f,        6.0f,          -3.0f,     3.0f,           -2.0f,
      88.7f,   88.8f,  -87.4f,     -103.5f,      -104.5f,       200.0f,    -200.0f,        8388607.5f,
      -8388609.0f, 3e9f, 16777216.0f, 16777217.0f, 1e30f,       -1e30f,    3.4028235e38f,  -3.4028235e38f,
      kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  return all;
}

/**
 * Floats of both signs and of every exponent, subnormal ones too, with the first, the middle, the last and some other
 * mantissas; many between 2^-17 and 2^8, where functions bend; and the special values.
 */
template <typename Engine>
std::vector<float> wholeDomain(Engine& engine) {
  std::vector<float> points = specialValues();
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    const bool bends = exponent >= 110 && exponent < 136;
    for (uint32_t i = 0; i < (bends ? 300 : 6); ++i) {
      const auto other = static_cast<uint32_t>(engine()) & 0x7FFFFFu;
      const uint32_t mantissa = i == 0 ? 0 : i == 1 ? 0x7FFFFFu : i == 2 ? 0x400000u : other;
      for (const uint32_t sign : {0u, 0x80000000u}) {
        points.push_back(std::bit_cast<float>(sign | exponent << 23 | mantissa));
      }
    }
  }
  return points;
}

/** The distance of floats around x, which is that of the smallest ones around zero. */
inline double ulpOf(double x) {
  constexpr double kSmallest = 0x1p-149;
  return x == 0 || !std::isfinite(x) ? kSmallest : std::max(kSmallest, std::ldexp(1.0, std::ilogb(x) - 23));
}

/** Volatile, because GCC 12 makes vectors of two such roundings, and then leaves them out. */
inline double roundedToFloat(double x) {
  const volatile float rounded = static_cast<float>(x);
  return double{rounded};
}

inline double exactly(const Function& function, double a, double b = 0) {
  return applyInDouble({function.operation, 0, 1, roundedToFloat(function.p), roundedToFloat(function.q)}, a, b);
}

/**
 * What a formula's terms add to its bound where they are larger than the result: the sum of an affine function, the
 * 1 + erf(x) of gelu, and the quotient that an exponential multiplies the error of.
 */
inline double errorOfTerms(const Function& function, double x, double exact) {
  const double p = roundedToFloat(function.p), q = roundedToFloat(function.q);
  switch (function.operation) {
    case Operation::affine:
    case Operation::hardSigmoid: return exact == 0 || exact == 1 ? 0 : 0.5 * ulpOf(p * x) + 0.5 * ulpOf(q);
    case Operation::celu: return std::abs(x / p) * ulpOf(exact);
    case Operation::gelu:
    case Operation::geluTanh: return x < 0 && std::isfinite(x) ? 1.5e-7 * std::min(-x, 20.0) : 0;
    default: return 0;
  }
}

/** Whether a result of zero has a sign that the formula says, and that a later division shows. */
inline bool hasSignOfZero(Operation operation) {
  switch (operation) {
    case Operation::multiply:
    case Operation::divide:
    case Operation::negate:
    case Operation::absolute:
    case Operation::tanh:
    case Operation::softsign:
    case Operation::exp:
    case Operation::sqrt:
    case Operation::reciprocal:
    case Operation::floor:
    case Operation::ceil:
    case Operation::round:
    case Operation::erf:
    case Operation::sin: return true;
    default: return false;
  }
}

/** Also of results beyond the floats: within the bound of 2^128, an infinity and the greatest float are both right. */
inline bool isRight(const Function& function, const Bound& bound, double x, float actual, double exact) {
  constexpr double kBeyond = 0x1p128;
  if (std::isnan(exact)) return std::isnan(actual);
  if (actual == 0 && hasSignOfZero(function.operation) && std::signbit(actual) != std::signbit(exact)) return false;
  // Half a unit for the rounding of the exact result, from which ulps are counted, is part of a bound.
  const double allowed = (bound.ulps + 0.01) * ulpOf(std::min(std::abs(exact), kBeyond)) + bound.absolute +
                         (std::isfinite(exact) ? errorOfTerms(function, x, exact) : 0);
  const auto within = [&](double value) { return std::copysign(std::min(std::abs(value), kBeyond), value); };
  return std::abs(within(double{actual}) - within(exact)) <= allowed;
}

}  // namespace warpconv::test
