#include "cuda/shuffle/exchange.cuh"
#include "cuda/shuffle/strip.cuh"
#include "cuda/shuffle/window.cuh"

namespace warpconv::cuda {
namespace {

/** The F elements of a window row that starts in column w, of stride T, by column reuse or by F loads. */
template <int F, int T, bool Column>
__device__ void loadRow(float (&x)[F], const float* row, int w, int width, int lane) {
  if constexpr (!Column) {
#pragma unroll
    for (int s = 0; s < F; ++s) x[s] = elementAt(row, w + s, width);
  } else if constexpr (T == 1) {
    // A chain of 5-column sub-filters and, at its end, a 3-column one: F - 1 is a multiple of 2.
    x[0] = elementAt(row, w, width);
#pragma unroll
    for (int s = 0; s + 2 < F; s += 4) {
      if (s + 4 < F) {
        float five[5] = {x[s], 0.0f, 0.0f, 0.0f, elementAt(row, w + s + 4, width)};
        fillFive(five, lane);
#pragma unroll
        for (int i = 1; i < 5; ++i) x[s + i] = five[i];
      } else {
        x[s + 2] = elementAt(row, w + s + 2, width);
        x[s + 1] = between<1>(x[s], x[s + 2], lane);
      }
    }
  } else {
    // Lane y has elements 2y and 2y + 1; the elements of later lanes follow. The last lanes only lend theirs.
    x[0] = elementAt(row, w, width);
    x[1] = elementAt(row, w + 1, width);
#pragma unroll
    for (int s = 2; s < F; ++s) x[s] = __shfl_down_sync(kAllLanes, x[s % 2], s / 2);
  }
}

/**
 * One input map a filter. A warp owns an item: `columns` adjacent output columns and `run` output rows of the map of
 * one output channel; lane y owns column q = segment * columns + y and walks down it. Items are numbered segment
 * fastest, then run, then n * K + k. Columns outside of the input load as zeros, rows outside of it too; lanes at and
 * beyond Q or beyond `columns` load, to lend, and do not store. The filter is in registers, nothing in shared memory.
 */
template <int F, int T, bool Column, bool Row>
__global__ void __launch_bounds__(kShuffleThreads) slidingKernel(ShuffleCall call) {
  const Shape& x = call.shape;
  const ShufflePlan& plan = call.plan;
  const unsigned item = blockIdx.x * kShuffleWarps + threadIdx.x / kWarpLanes;
  if (item >= static_cast<unsigned>(plan.segments * plan.runs * x.n * x.k)) return;
  const int lane = threadIdx.x % kWarpLanes;
  const Strip strip(call, item);
  const int q = strip.segment * plan.columns + lane;
  const int w = q * T - x.padLeft;
  const bool stores = lane < plan.columns && q < x.q;
  const float start = strip.bias(call);
  const Epilogue epilogue{nullptr, call.epilogue.residual, call.epilogue.activation};
  float filter[F * F];
#pragma unroll
  for (int i = 0; i < F * F; ++i) filter[i] = call.weight[strip.k * F * F + i];
  waitForKernelsBefore();
  letNextKernelBegin();

  const auto load = [&](float(&row)[F], int h) {
    // The whole warp is on row h.
    if (h < 0 || h >= x.h) {
#pragma unroll
      for (int s = 0; s < F; ++s) row[s] = 0.0f;
      return;
    }
    loadRow<F, T, Column>(row, strip.map + h * x.w, w, x.w, lane);
  };
  const auto store = [&](int p, float sum) {
    const int index = (strip.plane * x.p + p) * x.q + q;
    if (stores) call.tensors.output[index] = finish(epilogue, sum, strip.k, index);
  };

  if constexpr (Row) {
    RowWindow<F, T, 1> window;
    window.clear(start);
    int h = strip.firstP * T - x.padTop;
#pragma unroll 1
    for (int p = strip.firstP - (window.kRows - 1); p < strip.lastP; ++p) {
#pragma unroll
      for (int j = 0; j < T; ++j, ++h) {
        float row[F];
        load(row, h);
        window.add(j, row, filter);
      }
      if (p >= strip.firstP) store(p, window.finished()[0]);
      window.next(start);
    }
  } else {
#pragma unroll 1
    for (int p = strip.firstP; p < strip.lastP; ++p) {
      float sum = start;
#pragma unroll
      for (int r = 0; r < F; ++r) {
        float row[F];
        load(row, p * T + r - x.padTop);
#pragma unroll
        for (int s = 0; s < F; ++s) sum = fmaf(row[s], filter[r * F + s], sum);
      }
      store(p, sum);
    }
  }
}

template <int F, int T>
cudaError_t launchSliding(const ShuffleCall& call, cudaStream_t stream) {
  const auto kernel = call.plan.columnReuse
                          ? (call.plan.rowReuse ? slidingKernel<F, T, true, true> : slidingKernel<F, T, true, false>)
                          : (call.plan.rowReuse ? slidingKernel<F, T, false, true> : slidingKernel<F, T, false, false>);
  return launchKernel(kernel, call.launch(), stream, call);
}

}  // namespace

cudaError_t launchSliding(const ShuffleCall& call, cudaStream_t stream) {
  return withSquareFilter(call.shape.s, call.shape.strideW,
                          [&]<int F, int T>() { return launchSliding<F, T>(call, stream); });
}

}  // namespace warpconv::cuda
