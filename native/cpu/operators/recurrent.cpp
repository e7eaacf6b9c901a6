#include <algorithm>
#include <cstring>

#include "cpu/operators/cpu_operators.h"
#include "cpu/vector_loops/vector_loops.h"
#include "typed/functions.h"

namespace warpconv::operators {
namespace {

using Cell = RecurrentStep::Cell;
using Function = RecurrentStep::Function;

/** The states of one direction, and what a step of all its sequences works with. */
class Recurrence {
 public:
  Recurrence(const RecurrentStep& step, const RecurrentTensors& tensors, const RunContext& context)
      : x_(step),
        t_(tensors),
        context_(context),
        loops_(vectorLoops(context.isa)),
        width_(step.gateCount() * step.hidden),
        hidden_(tensors.output + step.steps * step.batch * step.hidden),
        cell_(hidden_ + step.batch * step.hidden),
        products_(cell_ + step.batch * step.hidden),
        scratch_(products_ + step.batch * width_) {
    copyOrClear(t_.initialHidden, hidden_);
    copyOrClear(t_.initialCell, cell_);
    // A sequence may be shorter, and what lies beyond its end is 0.
    std::fill_n(t_.output, step.steps * step.batch * step.hidden, 0.0f);
  }

  void run() {
    for (int64_t s = 0; s < x_.steps && !context_.isCancelled(); ++s) {
      const bool isReset = x_.cell == Cell::gru && !x_.resetsProduct;
      multiply(hidden_, 0, isReset ? 2 * x_.hidden : width_);
      if (isReset) {
        forEachSequence(s, [&](int64_t b, int64_t t) { resetState(b, gatesOf(t, b)); });
        multiply(scratch_, 2 * x_.hidden, x_.hidden);
      }
      forEachSequence(s, [&](int64_t b, int64_t t) {
        const float* gates = gatesOf(t, b);
        if (x_.cell == Cell::lstm) lstm(b, gates);
        if (x_.cell == Cell::gru) gru(b, gates);
        if (x_.cell == Cell::rnn) rnn(b, gates);
        std::copy_n(hiddenOf(b), x_.hidden, t_.output + (t * x_.batch + b) * x_.hidden);
      });
    }
  }

 private:
  void copyOrClear(const float* from, float* to) const {
    const int64_t count = x_.batch * x_.hidden;
    if (from != nullptr)
      std::copy_n(from, count, to);
    else
      std::fill_n(to, count, 0.0f);
  }

  const float* gatesOf(int64_t t, int64_t b) const { return t_.gates + (t * x_.batch + b) * width_; }
  float* hiddenOf(int64_t b) const { return hidden_ + b * x_.hidden; }
  float* productsOf(int64_t b) const { return products_ + b * width_; }

  /** Calls `body` with each sequence that has a step s, and where that step is in it. */
  template <typename Body>
  void forEachSequence(int64_t s, const Body& body) const {
    for (int64_t b = 0; b < x_.batch; ++b) {
      const int64_t given = t_.lengths == nullptr ? x_.steps : t_.lengths[b];
      const int64_t length = std::clamp<int64_t>(given, 0, x_.steps);
      if (s < length) body(b, x_.reversed ? length - 1 - s : s);
    }
  }

  /** products[b, first + j] = sum over k of states[b, k] * recurrent[first + j, k] */
  void multiply(const float* states, int64_t first, int64_t count) const {
    MatmulStep product;
    product.m = x_.batch, product.n = count, product.k = x_.hidden;
    product.leftStrides = {x_.hidden, 1};
    product.rightStrides = {1, x_.hidden};
    product.biasStrides = {0, 0};
    const float* rows = t_.recurrent + first * x_.hidden;
    if (first == 0 && count == width_) {
      matmul(product, states, rows, nullptr, products_, context_);
      return;
    }
    // Some of the columns, which a product writes one after the other.
    float* const columns = scratch_ + x_.batch * x_.hidden;
    matmul(product, states, rows, nullptr, columns, context_);
    for (int64_t b = 0; b < x_.batch; ++b) std::copy_n(columns + b * count, count, productsOf(b) + first);
  }

  /** values = function(values), brought within the bounds before */
  void apply(const Function& function, float* values) const {
    const int64_t count = x_.hidden;
    if (x_.clip > 0) {
      const auto bound = static_cast<float>(x_.clip);
      for (int64_t j = 0; j < count; ++j) values[j] = std::clamp(values[j], -bound, bound);
    }
    switch (function.operation) {
      case MapStep::Operation::sigmoid: return loop(ElementwiseStep::Operation::sigmoid, values);
      case MapStep::Operation::tanh: return loop(ElementwiseStep::Operation::tanh, values);
      default:
        typed::withFunction<float>(function.operation, function.p, function.q, [&](const auto& body) {
          for (int64_t j = 0; j < count; ++j) values[j] = body(values[j], 0, 0);
        });
    }
  }

  /** A loop does not write what it reads. */
  void loop(ElementwiseStep::Operation operation, float* values) const {
    constexpr int64_t kPart = 256;
    float results[kPart];
    for (int64_t first = 0; first < x_.hidden; first += kPart) {
      const int64_t count = std::min(kPart, x_.hidden - first);
      loops_.function(operation)(values + first, values + first, results, count, 0, 0);
      std::copy_n(results, count, values + first);
    }
  }

  /** Adds `count` elements of `summands`, each times one of `factors` unless that is null. */
  static void add(float* sums, const float* summands, const float* factors, int64_t count) {
    if (factors == nullptr) {
      for (int64_t j = 0; j < count; ++j) sums[j] += summands[j];
    } else {
      for (int64_t j = 0; j < count; ++j) sums[j] += summands[j] * factors[j];
    }
  }

  void rnn(int64_t b, const float* gates) const {
    float* values = productsOf(b);
    add(values, gates, nullptr, x_.hidden);
    apply(x_.functions[0], values);
    std::copy_n(values, x_.hidden, hiddenOf(b));
  }

  void lstm(int64_t b, const float* gates) const {
    const int64_t n = x_.hidden;
    float *i = productsOf(b), *o = i + n, *f = o + n, *c = f + n;
    float* const state = cell_ + b * n;
    const float* const p = t_.peepholes;
    add(i, gates, nullptr, width_);
    if (p != nullptr) {
      add(i, state, p, n);
      add(f, state, p + 2 * n, n);
    }
    apply(x_.functions[0], i);
    if (x_.isCoupled) {
      for (int64_t j = 0; j < n; ++j) f[j] = 1 - i[j];
    } else {
      apply(x_.functions[0], f);
    }
    apply(x_.functions[1], c);
    for (int64_t j = 0; j < n; ++j) state[j] = f[j] * state[j] + i[j] * c[j];
    if (p != nullptr) add(o, state, p + n, n);
    apply(x_.functions[0], o);
    float* const result = hiddenOf(b);
    std::copy_n(state, n, result);
    // The cell's state is not clipped.
    applyUnclipped(x_.functions[2], result);
    for (int64_t j = 0; j < n; ++j) result[j] *= o[j];
  }

  void applyUnclipped(const Function& function, float* values) const {
    if (function.operation == MapStep::Operation::tanh) return loop(ElementwiseStep::Operation::tanh, values);
    typed::withFunction<float>(function.operation, function.p, function.q, [&](const auto& body) {
      for (int64_t j = 0; j < x_.hidden; ++j) values[j] = body(values[j], 0, 0);
    });
  }

  /** Makes the gates z and r of a GRU, and the state that r leaves. */
  void resetState(int64_t b, const float* gates) const {
    const int64_t n = x_.hidden;
    float *z = productsOf(b), *r = z + n;
    add(z, gates, nullptr, 2 * n);
    apply(x_.functions[0], z);
    apply(x_.functions[0], r);
    float* const left = scratch_ + b * n;
    for (int64_t j = 0; j < n; ++j) left[j] = r[j] * hiddenOf(b)[j];
  }

  void gru(int64_t b, const float* gates) const {
    const int64_t n = x_.hidden;
    float *z = productsOf(b), *r = z + n, *h = r + n;
    if (x_.resetsProduct) {
      add(z, gates, nullptr, 2 * n);
      apply(x_.functions[0], z);
      apply(x_.functions[0], r);
      if (t_.productBias != nullptr) add(h, t_.productBias, nullptr, n);
      for (int64_t j = 0; j < n; ++j) h[j] = r[j] * h[j];
    }
    add(h, gates + 2 * n, nullptr, n);
    apply(x_.functions[1], h);
    float* const state = hiddenOf(b);
    for (int64_t j = 0; j < n; ++j) state[j] = (1 - z[j]) * h[j] + z[j] * state[j];
  }

  const RecurrentStep& x_;
  const RecurrentTensors& t_;
  const RunContext& context_;
  const VectorLoops& loops_;
  /** Of all gates */
  const int64_t width_;
  /** In the output: [batch, hidden] twice, [batch, width], and the columns of a product behind the state that is left
   */
  float *const hidden_, *const cell_, *const products_, *const scratch_;
};

}  // namespace

void recurrent(const RecurrentStep& step, const RecurrentTensors& tensors, const RunContext& context) {
  Recurrence(step, tensors, context).run();
}

}  // namespace warpconv::operators
