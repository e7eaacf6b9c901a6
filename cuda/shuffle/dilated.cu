#include <algorithm>

#include "cuda/epilogue/finish_in_turn.cuh"
#include "cuda/shuffle/exchange.cuh"
#include "cuda/shuffle/launches.h"
#include "cuda/shuffle/window.cuh"

namespace warpconv::cuda {
namespace {

struct DilatedCall {
  ShuffleCall call;
  Lattice rows;
  /** By the outputs of a row, and by the residues that have outputs */
  FastDivisor byColumns, byResidues;
};

/** Input rows that a thread asks for at once; while it works on them, the next are on their way. */
template <int F>
constexpr int kBatch = F == 7 ? 2 : 4;

/**
 * One input map a filter, dilated. A thread owns an output column, and of its rows `run` of one residue of the rows'
 * lattice, which are a convolution without dilation: it walks down their input rows with a rolling window of
 * accumulators, so that a row is read once for all windows that hold it. The F columns of a window are `dilationW`
 * apart: a load for each, which adjacent threads make of adjacent columns, and which the first cache has after one.
 * Items are numbered column fastest, then residue, run and plane = n * K + k, whatever the warp: nothing is exchanged.
 * Columns and rows outside of the input load as zeros. T: the lattice's stride.
 */
template <int F, int T>
__global__ void __launch_bounds__(kShuffleThreads, dilatedWarpsResident(F) / kShuffleWarps)
    dilatedKernel(DilatedCall all) {
  constexpr int kSteps = kBatch<F> / T;
  using Window = RowWindow<F, T, 1>;
  const ShuffleCall& call = all.call;
  const Shape& x = call.shape;
  const ShufflePlan& plan = call.plan;
  int q = blockIdx.x * kShuffleThreads + threadIdx.x;
  int residue = all.byColumns.divide(q);
  int run = all.byResidues.divide(residue);
  const int plane = call.byRuns.divide(run);
  int k = plane;
  const int n = call.byOutputs.divide(k);
  if (n >= x.n) return;

  // Output i of the residue is row p = residue + residues * i.
  const int first = run * plan.run;
  const int last = min(first + plan.run, (x.p - residue + all.rows.residues - 1) / all.rows.residues);
  const int w = q * x.strideW - x.padLeft;
  unsigned inside = 0;
#pragma unroll
  for (int s = 0; s < F; ++s) {
    inside |= static_cast<unsigned>(static_cast<unsigned>(w + s * x.dilationW) < static_cast<unsigned>(x.w)) << s;
  }
  int h = residue * all.rows.fullStride - all.rows.pad + all.rows.dilation * T * first;
  const float* row =
      call.tensors.input + ((n * x.c + call.byGroupOutputs.quotient(k)) * x.h + h) * static_cast<int64_t>(x.w) + w;
  const int apart = all.rows.dilation * x.w;
  float filter[F * F];
#pragma unroll
  for (int i = 0; i < F * F; ++i) filter[i] = call.weight[k * F * F + i];
  const float start = call.epilogue.bias == nullptr ? 0.0f : call.epilogue.bias[k];
  const Epilogue epilogue{nullptr, call.epilogue.residual, call.epilogue.activation};

  const auto load = [&](float(&batch)[kBatch<F>][F]) {
#pragma unroll
    for (int i = 0; i < kBatch<F>; ++i, h += all.rows.dilation, row += apart) {
      const unsigned mask = static_cast<unsigned>(h) < static_cast<unsigned>(x.h) ? inside : 0;
#pragma unroll
      for (int s = 0; s < F; ++s) batch[i][s] = (mask >> s & 1) != 0 ? row[s * x.dilationW] : 0.0f;
    }
  };
  waitForKernelsBefore();
  float next[kBatch<F>][F];
  load(next);
  letNextKernelBegin();
  Window window;
  window.clear(start);
#pragma unroll 1
  for (int step = 1 - Window::kRows; step < plan.run; step += kSteps) {
    float batch[kBatch<F>][F];
#pragma unroll
    for (int i = 0; i < kBatch<F>; ++i) {
#pragma unroll
      for (int s = 0; s < F; ++s) batch[i][s] = next[i][s];
    }
    // On its way during the arithmetic.
    if (step + kSteps < plan.run) load(next);
    float y[kSteps][1];
#pragma unroll
    for (int i = 0; i < kBatch<F>; ++i) {
      window.add(i % T, batch[i], filter);
      if (i % T < T - 1) continue;
      y[i / T][0] = window.finished()[0];
      window.next(start);
    }
    // Before the first row of the run the sums are partial, beyond its last row somebody else's.
    const auto store = [&](int i, float sum, bool finished) {
      const int output = first + step + i;
      if (step + i < 0 || output >= last) return;
      const int index = (plane * x.p + residue + all.rows.residues * output) * x.q + q;
      call.tensors.output[index] = finished ? sum : finish(epilogue, sum, k, index);
    };
    if (isFinished(epilogue)) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) store(i, y[i][0], true);
    } else {
      finishInTurn(y, [&](int i, float(&sums)[1]) { store(i, sums[0], false); });
    }
  }
}

template <int F, int T>
cudaError_t launch(const DilatedCall& all, cudaStream_t stream) {
  return launchKernel(dilatedKernel<F, T>, all.call.launch(), stream, all);
}

}  // namespace

cudaError_t launchDilated(const ShuffleCall& call, cudaStream_t stream) {
  const Shape& x = call.shape;
  const Lattice rows = makeLattice(x.strideH, x.dilationH, x.padTop, x.r);
  const DilatedCall all{call, rows, FastDivisor(x.q), FastDivisor(std::min(rows.residues, x.p))};
  return withSquareFilter(x.s, rows.stride, [&]<int F, int T>() { return launch<F, T>(all, stream); });
}

}  // namespace warpconv::cuda
