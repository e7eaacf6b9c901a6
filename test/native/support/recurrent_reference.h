#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/steps.h"

/** RNN, GRU and LSTM by ONNX's formulas, in double precision, one unit after the other. */
namespace warpconv::test {

struct RecurrentCase {
  program::RecurrentStep step;
  std::vector<float> gates, recurrent, productBias, peepholes, initialHidden, initialCell;
  std::vector<int32_t> lengths;
};

inline double activation(const program::RecurrentStep::Function& function, double x) {
  using Operation = program::MapStep::Operation;
  switch (function.operation) {
    case Operation::sigmoid: return 1 / (1 + std::exp(-x));
    case Operation::tanh: return std::tanh(x);
    case Operation::relu: return x > 0 ? x : 0;
    case Operation::affine: return function.p * x + function.q;
    case Operation::leakyRelu: return x < 0 ? function.p * x : x;
    case Operation::scaledTanh: return function.p * std::tanh(function.q * x);
    case Operation::hardSigmoid: return std::fmin(1, std::fmax(0, function.p * x + function.q));
    default: return NAN;
  }
}

/** All states [steps, batch, hidden], then the last ones and the last cell states. */
inline std::vector<double> recurrentInDouble(const RecurrentCase& given) {
  using Cell = program::RecurrentStep::Cell;
  const program::RecurrentStep& x = given.step;
  const int64_t n = x.hidden, width = x.gateCount() * n;
  const auto at = [](const std::vector<float>& list, int64_t i) {
    return list.empty() ? 0.0 : static_cast<double>(list[static_cast<size_t>(i)]);
  };
  std::vector<double> all(static_cast<size_t>(x.steps * x.batch * n)), last, cells;
  for (int64_t b = 0; b < x.batch; ++b) {
    std::vector<double> h(static_cast<size_t>(n)), c(h);
    for (int64_t j = 0; j < n; ++j) {
      h[static_cast<size_t>(j)] = at(given.initialHidden, b * n + j);
      c[static_cast<size_t>(j)] = at(given.initialCell, b * n + j);
    }
    const int64_t length = given.lengths.empty() ? x.steps : given.lengths[static_cast<size_t>(b)];
    for (int64_t s = 0; s < length; ++s) {
      const int64_t t = x.reversed ? length - 1 - s : s;
      const auto brought = [&](int64_t row) { return at(given.gates, (t * x.batch + b) * width + row); };
      const auto product = [&](const std::vector<double>& state, int64_t row) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += state[static_cast<size_t>(k)] * at(given.recurrent, row * n + k);
        return sum;
      };
      const auto gate = [&](int which, double value) {
        const double bounded = x.clip > 0 ? std::fmin(x.clip, std::fmax(-x.clip, value)) : value;
        return activation(x.functions[static_cast<size_t>(which)], bounded);
      };
      const std::vector<double> before = h;
      std::vector<double> left(before);
      if (x.cell == Cell::gru) {
        for (int64_t j = 0; j < n; ++j) {
          left[static_cast<size_t>(j)] *= gate(0, brought(n + j) + product(before, n + j));
        }
      }
      for (int64_t j = 0; j < n; ++j) {
        const auto unit = static_cast<size_t>(j);
        if (x.cell == Cell::rnn) {
          h[unit] = gate(0, brought(j) + product(before, j));
        } else if (x.cell == Cell::gru) {
          const double z = gate(0, brought(j) + product(before, j)),
                       r = gate(0, brought(n + j) + product(before, n + j));
          const double inner =
              x.resetsProduct ? r * (product(before, 2 * n + j) + at(given.productBias, j)) : product(left, 2 * n + j);
          h[unit] = (1 - z) * gate(1, brought(2 * n + j) + inner) + z * before[unit];
        } else {
          const double i = gate(0, brought(j) + product(before, j) + at(given.peepholes, j) * c[unit]);
          const double f =
              x.isCoupled
                  ? 1 - i
                  : gate(0, brought(2 * n + j) + product(before, 2 * n + j) + at(given.peepholes, 2 * n + j) * c[unit]);
          c[unit] = f * c[unit] + i * gate(1, brought(3 * n + j) + product(before, 3 * n + j));
          const double o = gate(0, brought(n + j) + product(before, n + j) + at(given.peepholes, n + j) * c[unit]);
          h[unit] = o * activation(x.functions[2], c[unit]);
        }
        all[static_cast<size_t>((t * x.batch + b) * n + j)] = h[unit];
      }
    }
    last.insert(last.end(), h.begin(), h.end());
    cells.insert(cells.end(), c.begin(), c.end());
  }
  all.insert(all.end(), last.begin(), last.end());
  all.insert(all.end(), cells.begin(), cells.end());
  return all;
}

/** Any cell with any of its options. `Random` has from(), maybe() and reals(). */
template <typename Random>
RecurrentCase anyRecurrent(Random& random) {
  using Cell = program::RecurrentStep::Cell;
  using Operation = program::MapStep::Operation;
  constexpr program::RecurrentStep::Function kFunctions[] = {
      {Operation::sigmoid, 0, 0},     {Operation::tanh, 0, 0},           {Operation::relu, 0, 0},
      {Operation::affine, 0.5, 0.25}, {Operation::scaledTanh, 1.5, 0.5}, {Operation::hardSigmoid, 0.2, 0.5},
      {Operation::leakyRelu, 0.1, 0}};
  RecurrentCase made;
  program::RecurrentStep& x = made.step;
  x.cell = static_cast<Cell>(random.from(0, 2));
  x.steps = random.from(1, 6), x.batch = random.from(1, 10), x.hidden = random.from(1, 70);
  x.reversed = random.maybe(), x.isCoupled = random.maybe();
  x.resetsProduct = x.cell == Cell::gru && random.maybe();
  x.clip = random.maybe() ? 0 : 0.75;
  x.functions = {kFunctions[0], kFunctions[1], kFunctions[1]};
  if (random.maybe()) {
    for (auto& function : x.functions) function = kFunctions[random.from(0, std::size(kFunctions) - 1)];
  }
  const int64_t states = x.batch * x.hidden, width = x.gateCount() * x.hidden;
  const auto scaled = [&](int64_t count, float factor) {
    std::vector<float> values = random.reals(count);
    for (float& value : values) value *= factor;
    return values;
  };
  made.gates = scaled(x.steps * x.batch * width, 1.0f);
  made.recurrent = scaled(width * x.hidden, 1.0f / std::sqrt(static_cast<float>(x.hidden)));
  if (x.resetsProduct && random.maybe()) made.productBias = scaled(x.hidden, 0.5f);
  if (x.cell == Cell::lstm && random.maybe()) made.peepholes = scaled(3 * x.hidden, 0.5f);
  if (random.maybe()) made.initialHidden = scaled(states, 1.0f);
  if (x.cell == Cell::lstm && random.maybe()) made.initialCell = scaled(states, 1.0f);
  if (random.maybe()) {
    for (int64_t b = 0; b < x.batch; ++b) made.lengths.push_back(static_cast<int32_t>(random.from(0, x.steps)));
  }
  return made;
}

inline int64_t recurrentOutputs(const program::RecurrentStep& x) {
  const int64_t states = x.batch * x.hidden;
  return x.steps * states + 2 * states + 2 * states * x.gateCount();
}

}  // namespace warpconv::test
