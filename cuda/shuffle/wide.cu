#include "cuda/epilogue/finish_in_turn.cuh"
#include "cuda/shuffle/chunk.cuh"
#include "cuda/shuffle/strip.cuh"
#include "cuda/shuffle/window.cuh"

namespace warpconv::cuda {
namespace {

/**
 * One input map a filter. An item is a strip of `lanes` lanes and `run` output rows of the map of one output channel;
 * lane y of segment z owns input columns 4 (z * lanes + y) … + 3 and the 4 / T output columns whose windows begin kLeft
 * before those, and walks down them. 32 / lanes items share a warp; lanes without an item go along with column -1,
 * which neither loads nor stores. Columns and rows outside of the input load as zeros. The filter is in registers,
 * nothing in shared memory.
 */
template <int F, int T, bool Padded, bool Edges>
__global__ void __launch_bounds__(kShuffleThreads, wideWarpsResident(F, Edges) / kShuffleWarps)
    wideKernel(ShuffleCall call) {
  constexpr int kOutputs = 4 / T;
  constexpr int kLeft = Padded ? (F - 1) / 2 : 0;
  constexpr int kSteps = kWideBatch / T;
  using Window = RowWindow<F, T, kOutputs>;

  const Shape& x = call.shape;
  const ShufflePlan& plan = call.plan;
  const int laneOfWarp = threadIdx.x % kWarpLanes;
  const unsigned stripsPerWarp = call.byLanes.quotient(kWarpLanes);
  const unsigned stripOfWarp = call.byLanes.quotient(laneOfWarp);
  const Seams<kLeft, Window::kColumns, Edges> seams(laneOfWarp, laneOfWarp - stripOfWarp * plan.lanes, plan.lanes);
  const unsigned items = plan.segments * plan.runs * x.n * x.k;
  const unsigned item = (blockIdx.x * kShuffleWarps + threadIdx.x / kWarpLanes) * stripsPerWarp + stripOfWarp;
  const bool active = stripOfWarp < stripsPerWarp && item < items;
  const Strip strip(call, active ? item : 0);
  const int chunk = strip.segment * plan.lanes + seams.lane();
  const int w = active ? chunk * 4 : -1;
  const int edgeW = active ? seams.edgeColumn(w) : -1;
  const int q = chunk * kOutputs;
  const int outputs = active ? x.q - q : 0;
  const float start = strip.bias(call);
  const Epilogue epilogue{nullptr, call.epilogue.residual, call.epilogue.activation};
  float filter[F * F];
#pragma unroll
  for (int i = 0; i < F * F; ++i) filter[i] = call.weight[strip.k * F * F + i];

  int h = strip.firstP * T - x.padTop;
  const float* row = strip.map + h * x.w;
  int index = (strip.plane * x.p + strip.firstP - (Window::kRows - 1)) * x.q + q;
  struct Batch {
    Chunk own[kWideBatch], edge[kWideBatch];
  };
  const auto load = [&](Batch& batch) {
    withWidth(call.loadWidth, [&]<int kWidth>() {
#pragma unroll
      for (int i = 0; i < kWideBatch; ++i) {
        const bool inside = static_cast<unsigned>(h + i) < static_cast<unsigned>(x.h);
        batch.own[i] = loadChunk<kWidth>(row + w, w, x.w, inside);
        if constexpr (Edges) batch.edge[i] = loadChunk<kWidth>(row + edgeW, edgeW, x.w, inside);
        row += x.w;
      }
    });
    h += kWideBatch;
  };

  Window window;
  window.clear(start);
  waitForKernelsBefore();
  Batch next;
  load(next);
  letNextKernelBegin();
#pragma unroll 1
  for (int step = 1 - Window::kRows; step < plan.run; step += kSteps) {
    const Batch batch = next;
    // On its way during the arithmetic.
    if (step + kSteps < plan.run) load(next);
    float y[kSteps][kOutputs];
#pragma unroll
    for (int i = 0; i < kWideBatch; ++i) {
      float columns[Window::kColumns];
      seams.extend(columns, batch.own[i], batch.edge[i]);
      window.add(i % T, columns, filter);
      if (i % T < T - 1) continue;
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) y[i / T][o] = window.finished()[o];
      window.next(start);
    }
    // Before the first row of the run the sums are partial, beyond its last row somebody else's.
    const auto isOurs = [&](int i) { return step + i >= 0 && strip.firstP + step + i < strip.lastP; };
    if (!isFinished(epilogue)) {
      finishInTurn(y, [&](int i, float(&row)[kOutputs]) {
        if (!isOurs(i)) return;
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          if (o < outputs) row[o] = finish(epilogue, row[o], strip.k, index + i * x.q + o);
        }
      });
    }
    withWidth(call.storeWidth, [&]<int kWidth>() {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (isOurs(i)) storeOutputs<kWidth>(call.tensors.output + index + i * x.q, y[i], outputs);
      }
    });
    index += kSteps * x.q;
  }
}

template <int F, int T>
cudaError_t launch(const ShuffleCall& call, cudaStream_t stream) {
  const bool padded = call.shape.padLeft > 0;
  const bool edges = call.plan.edges;
  const auto kernel = padded ? (edges ? wideKernel<F, T, true, true> : wideKernel<F, T, true, false>)
                             : (edges ? wideKernel<F, T, false, true> : wideKernel<F, T, false, false>);
  return launchKernel(kernel, call.launch(), stream, call);
}

}  // namespace

cudaError_t launchWide(const ShuffleCall& call, cudaStream_t stream) {
  return withSquareFilter(call.shape.s, call.shape.strideW, [&]<int F, int T>() { return launch<F, T>(call, stream); });
}

}  // namespace warpconv::cuda
