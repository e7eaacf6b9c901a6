#include <array>
#include <cmath>
#include <cstring>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

using Operation = ElementwiseStep::Operation;
using Instruction = ElementwiseStep::Instruction;

// Comparisons are written so that NaN fails them all and falls through unchanged.
float atLeast(float x, float low) { return x < low ? low : x; }
float atMost(float x, float high) { return x > high ? high : x; }
float minimum(float a, float b) { return a < b || a != a ? a : b; }
float maximum(float a, float b) { return a > b || a != a ? a : b; }
// In powers that do not overflow.
float sigmoid(float x) {
  const float power = std::exp(-std::fabs(x));
  return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}
float expm1IfNegative(float x, float scale, float factor) { return x < 0.0f ? factor * std::expm1(x / scale) : x; }

float apply(const Instruction& code, float a, float b) {
  const auto p = static_cast<float>(code.p);
  const auto q = static_cast<float>(code.q);
  switch (code.operation) {
    case Operation::add: return a + b;
    case Operation::subtract: return a - b;
    case Operation::multiply: return a * b;
    case Operation::divide: return a / b;
    case Operation::minimum: return minimum(a, b);
    case Operation::maximum: return maximum(a, b);
    case Operation::power: return std::pow(a, b);
    case Operation::prelu: return a < 0.0f ? a * b : a;
    case Operation::constant: return p;
    case Operation::affine: return a * p + q;
    case Operation::negate: return -a;
    case Operation::absolute: return std::fabs(a);
    case Operation::relu: return atLeast(a, 0.0f);
    case Operation::leakyRelu: return a < 0.0f ? p * a : a;
    case Operation::clip: return atMost(atLeast(a, p), q);
    case Operation::sigmoid: return sigmoid(a);
    case Operation::hardSigmoid: return atMost(atLeast(a * p + q, 0.0f), 1.0f);
    case Operation::hardSwish: return a * (atMost(atLeast(a + 3.0f, 0.0f), 6.0f) / 6.0f);
    case Operation::silu: return a * sigmoid(a);
    case Operation::mish: return a * std::tanh(atLeast(a, 0.0f) + std::log1p(std::exp(-std::fabs(a))));
    case Operation::elu: return expm1IfNegative(a, 1.0f, p);
    case Operation::selu: return q * expm1IfNegative(a, 1.0f, p);
    case Operation::celu: return expm1IfNegative(a, p, p);
    case Operation::gelu: return 0.5f * a * (1.0f + std::erf(a * 0.70710678f));
    case Operation::geluTanh: return 0.5f * a * (1.0f + std::tanh(0.79788456f * (a + 0.044715f * a * a * a)));
    case Operation::tanh: return std::tanh(a);
    case Operation::softplus: return atLeast(a, 0.0f) + std::log1p(std::exp(-std::fabs(a)));
    case Operation::softsign: return a / (1.0f + std::fabs(a));
    case Operation::exp: return std::exp(a);
    case Operation::log: return std::log(a);
    case Operation::sqrt: return std::sqrt(a);
    case Operation::reciprocal: return 1.0f / a;
    case Operation::floor: return std::floor(a);
    case Operation::ceil: return std::ceil(a);
    case Operation::round: return std::nearbyint(a);
    case Operation::erf: return std::erf(a);
    case Operation::sign: return a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : a);
    case Operation::sin: return std::sin(a);
    case Operation::cos: return std::cos(a);
  }
  return a;
}

int64_t elementsOf(const ElementwiseStep& step) {
  int64_t count = 1;
  for (const int64_t extent : step.extents) count *= extent;
  return count;
}

int64_t offsetOf(const ElementwiseStep& step, size_t operand, int64_t element) {
  int64_t offset = 0;
  for (size_t axis = step.extents.size(); axis-- > 0; element /= step.extents[axis]) {
    offset += element % step.extents[axis] * step.strides[operand][axis];
  }
  return offset;
}

}  // namespace

void elementwise(const ElementwiseStep& step, std::span<const float* const> operands, float* output,
                 const RunContext& context) {
  forEachRange(context, elementsOf(step), 1, [&](int64_t begin, int64_t end) {
    std::array<float, ElementwiseStep::kMostOperands + ElementwiseStep::kMostInstructions> values;
    for (int64_t i = begin; i < end; ++i) {
      size_t next = 0;
      for (; next < operands.size(); ++next) values[next] = operands[next][offsetOf(step, next, i)];
      for (const Instruction& code : step.code) {
        values[next++] = apply(code, values[static_cast<size_t>(code.a)], values[static_cast<size_t>(code.b)]);
      }
      output[i] = values[next - 1];
    }
  });
}

}  // namespace warpconv::operators
