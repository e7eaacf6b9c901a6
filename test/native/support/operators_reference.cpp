#include "support/operators_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace warpconv::test {
namespace {

using namespace program;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double at(const std::vector<float>& values, int64_t index) { return double{values.at(static_cast<size_t>(index))}; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double clamp(double x, double low, double high) {
  if (std::isnan(x)) return x;
  return std::fmin(std::fmax(x, low), high);
}

double activate(const Activation& activation, double x) {
  switch (activation.kind) {
    case ActivationKind::none: return x;
    case ActivationKind::relu: return clamp(x, 0, kInfinity);
    case ActivationKind::leakyRelu: return x < 0 ? double{activation.first} * x : x;
    case ActivationKind::clip: return clamp(x, double{activation.first}, double{activation.second});
    case ActivationKind::sigmoid: return sigmoid(x);
    case ActivationKind::silu: return x * sigmoid(x);
    case ActivationKind::hardSwish: return x * clamp(x / 6 + 0.5, 0, 1);
    case ActivationKind::gelu: return x * (0.5 * std::erfc(-x * std::sqrt(0.5)));
  }
  return kNaN;
}

}  // namespace

Expected matmulInDouble(const MatmulStep& step, const std::vector<float>& left, const std::vector<float>& right,
                        const std::vector<float>& bias) {
  Expected expected;
  forEachPosition(step.batch, [&](const std::vector<int64_t>& batch) {
    const auto element = [&](const std::vector<int64_t>& strides, int64_t row, int64_t column) {
      const size_t axes = batch.size();
      return offsetAt(batch, strides) + row * strides[axes] + column * strides[axes + 1];
    };
    for (int64_t i = 0; i < step.m; ++i) {
      for (int64_t j = 0; j < step.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < step.k; ++k) {
          const double product =
              at(left, element(step.leftStrides, i, k)) * at(right, element(step.rightStrides, k, j));
          sum += product;
          magnitude += std::abs(product);
        }
        const double added = bias.empty() ? 0 : step.beta * at(bias, element(step.biasStrides, i, j));
        expected.output.push_back(activate(step.activation, step.alpha * sum + added));
        expected.bound.push_back(std::abs(step.alpha) * magnitude + std::abs(added));
      }
    }
  });
  return expected;
}

double applyInDouble(const ElementwiseStep::Instruction& code, double a, double b) {
  using Operation = ElementwiseStep::Operation;
  const double p = code.p, q = code.q;
  const double pi = std::acos(-1.0);
  switch (code.operation) {
    case Operation::add: return a + b;
    case Operation::subtract: return a - b;
    case Operation::multiply: return a * b;
    case Operation::divide: return a / b;
    case Operation::minimum: return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b);
    case Operation::maximum: return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b);
    case Operation::power: return std::pow(a, b);
    case Operation::prelu: return a < 0 ? a * b : a;
    case Operation::constant: return p;
    case Operation::affine: return a * p + q;
    case Operation::negate: return -a;
    case Operation::absolute: return std::abs(a);
    case Operation::relu: return clamp(a, 0, kInfinity);
    case Operation::leakyRelu: return a < 0 ? p * a : a;
    case Operation::clip: return clamp(a, p, q);
    case Operation::sigmoid: return sigmoid(a);
    case Operation::hardSigmoid: return clamp(p * a + q, 0, 1);
    case Operation::hardSwish: return a * clamp(a / 6 + 0.5, 0, 1);
    case Operation::silu: return a * sigmoid(a);
    // Above 40 the hyperbolic tangent is 1 to the last bit.
    case Operation::mish: return a * (a > 40 ? 1 : std::tanh(std::log1p(std::exp(a))));
    case Operation::elu: return a < 0 ? p * std::expm1(a) : a;
    case Operation::selu: return a < 0 ? q * p * std::expm1(a) : q * a;
    case Operation::celu: return std::isnan(a) ? a : std::max(0.0, a) + std::min(0.0, p * std::expm1(a / p));
    case Operation::gelu: return 0.5 * a * std::erfc(-a / std::sqrt(2.0));
    // (1 + tanh(u)) / 2 = sigmoid(2 u), without the cancellation.
    case Operation::geluTanh: return a * sigmoid(2 * std::sqrt(2 / pi) * (a + 0.044715 * a * a * a));
    case Operation::tanh: return std::tanh(a);
    case Operation::softplus: return a > 40 ? a : std::log1p(std::exp(a));
    case Operation::softsign: return a / (1 + std::abs(a));
    case Operation::exp: return std::exp(a);
    case Operation::log: return std::log(a);
    case Operation::sqrt: return std::sqrt(a);
    case Operation::reciprocal: return 1 / a;
    case Operation::floor: return std::floor(a);
    case Operation::ceil: return std::ceil(a);
    case Operation::round: return std::nearbyint(a);
    case Operation::erf: return std::erf(a);
    case Operation::sign: return std::isnan(a) ? a : (a > 0) - (a < 0);
    case Operation::sin: return std::sin(a);
    case Operation::cos: return std::cos(a);
  }
  return kNaN;
}

std::vector<double> elementwiseInDouble(const ElementwiseStep& step, const std::vector<std::vector<float>>& operands) {
  std::vector<double> output;
  forEachPosition(step.extents, [&](const std::vector<int64_t>& position) {
    std::vector<double> values;
    for (size_t i = 0; i < operands.size(); ++i) values.push_back(at(operands[i], offsetAt(position, step.strides[i])));
    for (const auto& code : step.code) {
      const double a = values.empty() ? 0 : values.at(static_cast<size_t>(code.a));
      values.push_back(applyInDouble(code, a, values.empty() ? 0 : values.at(static_cast<size_t>(code.b))));
    }
    output.push_back(values.back());
  });
  return output;
}

Expected poolInDouble(const PoolStep& step, const std::vector<float>& input) {
  Expected expected;
  forEachPosition({step.planes, step.p, step.q}, [&](const std::vector<int64_t>& position) {
    double sum = 0, magnitude = 0, most = -kInfinity;
    int64_t inside = 0, padded = 0;
    for (int64_t r = 0; r < step.r; ++r) {
      for (int64_t s = 0; s < step.s; ++s) {
        const int64_t h = position[1] * step.stride[0] + r * step.dilation[0] - step.padding[0];
        const int64_t w = position[2] * step.stride[1] + s * step.dilation[1] - step.padding[1];
        if (h < step.h + step.endPadding[0] && w < step.w + step.endPadding[1]) ++padded;
        if (h < 0 || w < 0 || h >= step.h || w >= step.w) continue;
        const double value = at(input, (position[0] * step.h + h) * step.w + w);
        ++inside;
        sum += value;
        magnitude += std::abs(value);
        if (std::isnan(value) || value > most) most = value;
        if (std::isnan(sum)) sum = kNaN;
      }
    }
    const auto divisor = static_cast<double>(step.countPadding ? padded : inside);
    const bool isMaximum = step.mode == PoolStep::Mode::maximum;
    expected.output.push_back(isMaximum ? most : inside == 0 ? 0 : sum / divisor);
    expected.bound.push_back(isMaximum || inside == 0 ? 0 : magnitude / divisor);
  });
  return expected;
}

Expected reduceInDouble(const ReduceStep& step, const std::vector<float>& input) {
  using Mode = ReduceStep::Mode;
  Expected expected;
  forEachPosition({step.outer, step.inner}, [&](const std::vector<int64_t>& position) {
    double sum = 0, magnitude = 0, squares = 0, product = 1, least = kInfinity, most = -kInfinity;
    std::vector<double> values;
    for (int64_t i = 0; i < step.reduced; ++i) {
      values.push_back(at(input, (position[0] * step.reduced + i) * step.inner + position[1]));
      sum += values.back();
      magnitude += std::abs(values.back());
      squares += values.back() * values.back();
      product *= values.back();
      least = std::isnan(least) || std::isnan(values.back()) ? kNaN : std::min(least, values.back());
      most = std::isnan(most) || std::isnan(values.back()) ? kNaN : std::max(most, values.back());
    }
    const double wanted = step.mode == Mode::argMaximum ? most : least;
    const auto isWanted = [&](double value) { return std::isnan(wanted) ? std::isnan(value) : value == wanted; };
    const auto first = std::find_if(values.begin(), values.end(), isWanted) - values.begin();
    const auto last = values.rend() - std::find_if(values.rbegin(), values.rend(), isWanted) - 1;
    const double place = static_cast<double>(step.last ? last : first);
    const auto count = static_cast<double>(step.reduced);
    switch (step.mode) {
      case Mode::sum: expected.output.push_back(sum), expected.bound.push_back(magnitude); break;
      case Mode::mean: expected.output.push_back(sum / count), expected.bound.push_back(magnitude / count); break;
      case Mode::maximum: expected.output.push_back(most), expected.bound.push_back(0); break;
      case Mode::minimum: expected.output.push_back(least), expected.bound.push_back(0); break;
      case Mode::product: expected.output.push_back(product), expected.bound.push_back(std::abs(product)); break;
      case Mode::sumOfSquares: expected.output.push_back(squares), expected.bound.push_back(squares); break;
      case Mode::argMaximum:
      case Mode::argMinimum: expected.output.push_back(place), expected.bound.push_back(0); break;
    }
  });
  return expected;
}

std::vector<double> softmaxInDouble(const SoftmaxStep& step, const std::vector<float>& input) {
  std::vector<double> output(input.size());
  forEachPosition({step.outer, step.inner}, [&](const std::vector<int64_t>& position) {
    const auto index = [&](int64_t i) { return (position[0] * step.reduced + i) * step.inner + position[1]; };
    double most = -kInfinity, sum = 0;
    for (int64_t i = 0; i < step.reduced; ++i) most = std::max(most, at(input, index(i)));
    for (int64_t i = 0; i < step.reduced; ++i) sum += std::exp(at(input, index(i)) - most);
    for (int64_t i = 0; i < step.reduced; ++i) {
      const double x = at(input, index(i)) - most;
      output.at(static_cast<size_t>(index(i))) = step.logarithm ? x - std::log(sum) : std::exp(x) / sum;
    }
  });
  return output;
}

Expected normalizeInDouble(const NormalizeStep& step, const std::vector<float>& scale, const std::vector<float>& shift,
                           const std::vector<float>& input) {
  Expected expected;
  for (int64_t row = 0; row < step.rows; ++row) {
    double mean = 0, magnitude = 0, variance = 0;
    for (int64_t j = 0; j < step.count; ++j) {
      mean += at(input, row * step.count + j) / static_cast<double>(step.count);
      magnitude += std::abs(at(input, row * step.count + j)) / static_cast<double>(step.count);
    }
    for (int64_t j = 0; j < step.count; ++j) variance += std::pow(at(input, row * step.count + j) - mean, 2);
    variance /= static_cast<double>(step.count);
    const double deviation = std::sqrt(variance + step.epsilon);
    for (int64_t j = 0; j < step.count; ++j) {
      const int64_t i = row % step.groups * step.channels + j / step.inner;
      const double factor = (scale.empty() ? 1 : at(scale, i)) / deviation;
      const double added = shift.empty() ? 0 : at(shift, i);
      const double x = at(input, row * step.count + j);
      expected.output.push_back((x - mean) * factor + added);
      expected.bound.push_back((std::abs(x) + magnitude) * std::abs(factor) + std::abs(added));
    }
  }
  return expected;
}

std::vector<double> localResponseInDouble(const LocalResponseStep& step, const std::vector<float>& input) {
  std::vector<double> output;
  forEachPosition({step.n, step.channels, step.inner}, [&](const std::vector<int64_t>& position) {
    const auto value = [&](int64_t c) {
      return at(input, (position[0] * step.channels + c) * step.inner + position[2]);
    };
    const int64_t before = (step.size - 1) / 2, after = step.size - 1 - before;
    double squares = 0;
    for (int64_t c = position[1] - before; c <= position[1] + after; ++c) {
      if (c >= 0 && c < step.channels) squares += value(c) * value(c);
    }
    const double base = step.k + step.alpha / static_cast<double>(step.size) * squares;
    output.push_back(value(position[1]) / std::pow(base, step.beta));
  });
  return output;
}

Expected interpolateInDouble(const InterpolateStep& step, const std::vector<float>& input) {
  Expected expected;
  forEachPosition({step.outer, step.count, step.inner}, [&](const std::vector<int64_t>& position) {
    double sum = 0, magnitude = 0;
    for (int64_t t = 0; t < step.taps; ++t) {
      const auto tap = static_cast<size_t>(position[1] * step.taps + t);
      const double value = step.weights.at(tap) *
                           at(input, (position[0] * step.axis + step.positions.at(tap)) * step.inner + position[2]);
      sum += value;
      magnitude += std::abs(value);
    }
    expected.output.push_back(sum);
    expected.bound.push_back(magnitude);
  });
  return expected;
}

}  // namespace warpconv::test
