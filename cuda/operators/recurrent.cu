#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "typed/functions.h"

namespace warpconv::cuda::operators {
namespace {

using Cell = RecurrentStep::Cell;

/** What the kernels of all steps share. Elements are those of RecurrentStep. */
struct Units {
  Cell cell;
  int64_t steps;
  int batch, hidden, width;
  bool reversed, resetsProduct, isCoupled;
  float clip;
  RecurrentStep::Function functions[3];
  RecurrentTensors tensors;
  float *hiddenState, *cellState, *products, *scratch;

  /** Where step s of a sequence is in it, or -1 beyond its end. */
  __device__ int64_t placeOf(int64_t s, int b) const {
    const int64_t given = tensors.lengths == nullptr ? steps : tensors.lengths[b];
    const int64_t length = given < 0 ? 0 : given > steps ? steps : given;
    if (s >= length) return -1;
    return reversed ? length - 1 - s : s;
  }
  __device__ const float* gatesOf(int64_t t, int b) const { return tensors.gates + (t * batch + b) * width; }
  __device__ float bounded(float value) const {
    return clip > 0 ? (value < -clip ? -clip : value > clip ? clip : value) : value;
  }
  __device__ float apply(int which, float value) const {
    const RecurrentStep::Function& function = functions[which];
    float result = 0;
    typed::withFunction<float>(function.operation, function.p, function.q,
                               [&](const auto& body) { result = body(value, 0.0f, 0.0f); });
    return result;
  }
  __device__ float gate(int which, float value) const { return apply(which, bounded(value)); }
};

/** Thread i of the grid owns state i, [batch, hidden], and clears what it has of every step. */
__global__ void __launch_bounds__(kThreads) beginKernel(const __grid_constant__ Units x) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread()), states = x.batch * x.hidden;
  if (i >= states) return;
  x.hiddenState[i] = x.tensors.initialHidden == nullptr ? 0.0f : x.tensors.initialHidden[i];
  x.cellState[i] = x.tensors.initialCell == nullptr ? 0.0f : x.tensors.initialCell[i];
  for (int64_t t = 0; t < x.steps; ++t) x.tensors.output[t * states + i] = 0.0f;
}

/** Makes the gates z and r of a GRU, and the state that r leaves, of thread i's unit. */
__global__ void __launch_bounds__(kThreads) resetKernel(const __grid_constant__ Units x, int64_t s) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (i >= x.batch * x.hidden) return;
  const int b = i / x.hidden, j = i % x.hidden;
  const int64_t t = x.placeOf(s, b);
  if (t < 0) return;
  const float* const gates = x.gatesOf(t, b);
  float* const products = x.products + int64_t{b} * x.width;
  products[j] = x.gate(0, products[j] + gates[j]);
  const float r = x.gate(0, products[x.hidden + j] + gates[x.hidden + j]);
  x.scratch[i] = r * x.hiddenState[i];
}

/** Makes the states of thread i's unit after step s. `last` are the products of a GRU's last gate, from row to row. */
__global__ void __launch_bounds__(kThreads)
    cellKernel(const __grid_constant__ Units x, int64_t s, const float* last, int lastStride) {
  beginStep();
  const int i = static_cast<int>(pieceOfThread());
  if (i >= x.batch * x.hidden) return;
  const int n = x.hidden, b = i / n, j = i % n;
  const int64_t t = x.placeOf(s, b);
  if (t < 0) return;
  const float* const gates = x.gatesOf(t, b);
  const float* const products = x.products + int64_t{b} * x.width;
  const auto sum = [&](int gate) { return products[gate * n + j] + gates[gate * n + j]; };
  float state;
  if (x.cell == Cell::rnn) {
    state = x.gate(0, sum(0));
  } else if (x.cell == Cell::gru) {
    // Where the state was reset, z is made already.
    const float z = x.resetsProduct ? x.gate(0, sum(0)) : products[j];
    float h = last[int64_t{b} * lastStride + j];
    if (x.resetsProduct) {
      const float r = x.gate(0, sum(1));
      h = r * (h + (x.tensors.productBias == nullptr ? 0.0f : x.tensors.productBias[j]));
    }
    h = x.gate(1, h + gates[2 * n + j]);
    state = (1.0f - z) * h + z * x.hiddenState[i];
  } else {
    const float* const p = x.tensors.peepholes;
    const float before = x.cellState[i];
    const float input = x.gate(0, sum(0) + (p == nullptr ? 0.0f : p[j] * before));
    const float forget = x.isCoupled ? 1.0f - input : x.gate(0, sum(2) + (p == nullptr ? 0.0f : p[2 * n + j] * before));
    const float now = forget * before + input * x.gate(1, sum(3));
    x.cellState[i] = now;
    const float out = x.gate(0, sum(1) + (p == nullptr ? 0.0f : p[n + j] * now));
    state = out * x.apply(2, now);
  }
  x.hiddenState[i] = state;
  x.tensors.output[(t * x.batch + b) * n + j] = state;
}

}  // namespace

Status recurrent(const RecurrentStep& step, const RecurrentTensors& tensors, int multiprocessors, cudaStream_t stream) {
  const int64_t states = step.batch * step.hidden, width = step.gateCount() * step.hidden;
  float* const hidden = tensors.output + step.steps * states;
  float* const products = hidden + 2 * states;
  const Units x{step.cell,
                step.steps,
                static_cast<int>(step.batch),
                static_cast<int>(step.hidden),
                static_cast<int>(width),
                step.reversed,
                step.resetsProduct,
                step.isCoupled,
                static_cast<float>(step.clip),
                {step.functions[0], step.functions[1], step.functions[2]},
                tensors,
                hidden,
                hidden + states,
                products,
                products + step.batch * width};
  // output[b, j] = sum over k of left[b, k] * recurrent[first + j, k]
  const auto multiply = [&](const float* left, int64_t first, int64_t count, float* output) {
    MatmulStep product;
    product.m = step.batch, product.n = count, product.k = step.hidden;
    product.leftStrides = {step.hidden, 1};
    product.rightStrides = {1, step.hidden};
    product.biasStrides = {0, 0};
    return matmul(product, left, tensors.recurrent + first * step.hidden, nullptr, output, multiprocessors, stream);
  };
  const Launch grid = gridFor(states);
  const bool isReset = step.cell == Cell::gru && !step.resetsProduct;
  const float* last = products + 2 * step.hidden;
  int lastStride = static_cast<int>(width);
  if (isReset) last = x.scratch + states, lastStride = static_cast<int>(step.hidden);
  if (Status status = launch("recurrent", beginKernel, grid, stream, x); !status.isOk()) return status;
  for (int64_t s = 0; s < step.steps; ++s) {
    if (Status status = multiply(hidden, 0, width, products); !status.isOk()) return status;
    if (isReset) {
      if (Status status = launch("recurrent", resetKernel, grid, stream, x, s); !status.isOk()) return status;
      if (Status status = multiply(x.scratch, 2 * step.hidden, step.hidden, x.scratch + states); !status.isOk()) {
        return status;
      }
    }
    if (Status status = launch("recurrent", cellKernel, grid, stream, x, s, last, lastStride); !status.isOk()) {
      return status;
    }
  }
  return {};
}

}  // namespace warpconv::cuda::operators
