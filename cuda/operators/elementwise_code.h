#pragma once

#include <cmath>
#include <cstdint>

#include "host_device.h"
#include "cuda/operators/trigonometry.h"
#include "program/steps.h"

/**
 * The chain of an elementwise step as kernels run it. Nothing here is particular to a GPU, so that it is tested without
 * one.
 */
namespace warpconv::cuda::operators {

/** Neighbouring elements, which one instruction is decoded for. */
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Pack {
  float lane[kWidth];
};

/**
 * Where an instruction finds a value: below kMostOperands it is read from memory, from there on it is in a slot of fast
 * memory; most are what the instruction before has made, and stay in registers.
 */
using Source = uint8_t;
inline constexpr Source kFirstSlot = program::ElementwiseStep::kMostOperands;
inline constexpr Source kLast = 254;
inline constexpr Source kNothing = 255;

struct CodeInstruction {
  program::ElementwiseStep::Operation operation;
  Source a, b;
  /** The slot that keeps the result for a later instruction than the next, or kNothing */
  Source keep;
  float p, q;
};

struct ElementwiseCode {
  int count = 0;
  int slots = 0;
  CodeInstruction instructions[program::ElementwiseStep::kMostInstructions];
};

namespace detail {

// Comparisons are written so that NaN fails them all and falls through unchanged.
WARPCONV_HOST_DEVICE inline float atLeast(float x, float low) { return x < low ? low : x; }
WARPCONV_HOST_DEVICE inline float atMost(float x, float high) { return x > high ? high : x; }
// In powers that do not overflow.
WARPCONV_HOST_DEVICE inline float sigmoid(float x) {
  const float power = expf(-fabsf(x));
  return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}
WARPCONV_HOST_DEVICE inline float softplus(float x) { return atLeast(x, 0.0f) + log1pf(expf(-fabsf(x))); }
WARPCONV_HOST_DEVICE inline float elu(float x, float alpha) { return x < 0.0f ? alpha * expm1f(x) : x; }
/** alpha * (e^(x / alpha) - 1) below zero, which grows without bounds where alpha is negative */
WARPCONV_HOST_DEVICE inline float celu(float x, float alpha) {
  const float quotient = x / alpha;
  // The quotient may underflow where the result, which is x to the last bit, does not.
  if (!(x < 0.0f) || fabsf(quotient) < 0x1p-25f) return x;
  if (!(quotient > 80.0f)) return alpha * expm1f(quotient);
  // In two factors, because alpha may bring a power that is no float back among them.
  const float root = expf(0.5f * quotient);
  return alpha * root * root;
}

template <int kWidth, typename Function>
WARPCONV_HOST_DEVICE Pack<kWidth> each(const Pack<kWidth>& a, const Pack<kWidth>& b, const Function& function) {
  Pack<kWidth> result;
  for (int i = 0; i < kWidth; ++i) result.lane[i] = function(a.lane[i], b.lane[i]);
  return result;
}

}  // namespace detail

/** One instruction; `b` is for those of two operands. */
template <int kWidth>
WARPCONV_HOST_DEVICE Pack<kWidth> apply(const CodeInstruction& code, const Pack<kWidth>& first,
                                        const Pack<kWidth>& second) {
  using namespace detail;
  using Operation = program::ElementwiseStep::Operation;
  const float p = code.p, q = code.q;
  const auto binary = [&](const auto& function) { return each(first, second, function); };
  const auto unary = [&](const auto& function) {
    return each(first, first, [&](float a, float) { return function(a); });
  };
  switch (code.operation) {
    case Operation::add: return binary([](float a, float b) { return a + b; });
    case Operation::subtract: return binary([](float a, float b) { return a - b; });
    case Operation::multiply: return binary([](float a, float b) { return a * b; });
    case Operation::divide: return binary([](float a, float b) { return a / b; });
    case Operation::minimum: return binary([](float a, float b) { return a < b || a != a ? a : b; });
    case Operation::maximum: return binary([](float a, float b) { return a > b || a != a ? a : b; });
    case Operation::power: return binary([](float a, float b) { return powf(a, b); });
    case Operation::prelu: return binary([](float a, float b) { return a < 0.0f ? a * b : a; });
    case Operation::constant: return unary([&](float) { return p; });
    case Operation::affine: return unary([&](float a) { return a * p + q; });
    case Operation::negate: return unary([](float a) { return -a; });
    case Operation::absolute: return unary([](float a) { return fabsf(a); });
    case Operation::relu: return unary([](float a) { return atLeast(a, 0.0f); });
    case Operation::leakyRelu: return unary([&](float a) { return a < 0.0f ? p * a : a; });
    case Operation::clip: return unary([&](float a) { return atMost(atLeast(a, p), q); });
    case Operation::sigmoid: return unary([](float a) { return sigmoid(a); });
    case Operation::hardSigmoid: return unary([&](float a) { return atMost(atLeast(a * p + q, 0.0f), 1.0f); });
    case Operation::hardSwish: return unary([](float a) { return a * (atMost(atLeast(a + 3.0f, 0.0f), 6.0f) / 6.0f); });
    case Operation::silu: return unary([](float a) { return a * sigmoid(a); });
    case Operation::mish: return unary([](float a) { return a * tanhf(softplus(a)); });
    case Operation::elu: return unary([&](float a) { return elu(a, p); });
    case Operation::selu: return unary([&](float a) { return q * elu(a, p); });
    case Operation::celu: return unary([&](float a) { return celu(a, p); });
    case Operation::gelu: return unary([](float a) { return 0.5f * a * (1.0f + erff(a * 0.70710678f)); });
    case Operation::geluTanh:
      return unary([](float a) { return 0.5f * a * (1.0f + tanhf(0.79788456f * (a + 0.044715f * a * a * a))); });
    case Operation::tanh: return unary([](float a) { return tanhf(a); });
    case Operation::softplus: return unary([](float a) { return softplus(a); });
    case Operation::softsign: return unary([](float a) { return a / (1.0f + fabsf(a)); });
    case Operation::exp: return unary([](float a) { return expf(a); });
    case Operation::log: return unary([](float a) { return logf(a); });
    case Operation::sqrt: return unary([](float a) { return sqrtf(a); });
    case Operation::reciprocal: return unary([](float a) { return 1.0f / a; });
    case Operation::floor: return unary([](float a) { return floorf(a); });
    case Operation::ceil: return unary([](float a) { return ceilf(a); });
    case Operation::round: return unary([](float a) { return rintf(a); });
    case Operation::erf: return unary([](float a) { return erff(a); });
    case Operation::sign: return unary([](float a) { return a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : a); });
    case Operation::sin: return unary([](float a) { return sine(a); });
    case Operation::cos: return unary([](float a) { return cosine(a); });
  }
  return first;
}

/** What the code makes of the operands that `load(operand)` reads; slot i is slots[i * slotStride]. */
template <int kWidth, typename Load>
WARPCONV_HOST_DEVICE Pack<kWidth> evaluate(const ElementwiseCode& code, const Load& load, Pack<kWidth>* slots,
                                           int slotStride) {
  Pack<kWidth> last{};
  const auto find = [&](Source source) {
    if (source < kFirstSlot) return load(source);
    return source < kLast ? slots[(source - kFirstSlot) * slotStride] : last;
  };
  for (int i = 0; i < code.count; ++i) {
    const CodeInstruction& instruction = code.instructions[i];
    last = apply(instruction, find(instruction.a), find(instruction.b));
    if (instruction.keep != kNothing) slots[(instruction.keep - kFirstSlot) * slotStride] = last;
  }
  return last;
}

}  // namespace warpconv::cuda::operators
