#include "cuda/epilogue/finish_in_turn.cuh"
#include "cuda/shuffle/chunk.cuh"
#include "cuda/shuffle/filter_block.cuh"

namespace warpconv::cuda {
namespace {

/**
 * Several input maps and filters. Block b owns four output channels of one group of one image; an item is a strip of
 * `lanes` lanes and `run` output rows of them; lane y of segment z owns input columns 4 (z * lanes + y) … + 3 and the
 * 4 / T output columns whose windows begin kLeft before those. Items are numbered segment fastest, then run, and
 * 32 / lanes of them share a warp; lanes without an item go along with column -1, which neither loads nor stores.
 * Shared memory: the block's filters of `channels` input maps at a time. Columns and rows outside of the input load as
 * zeros.
 */
template <int F, int T, bool Padded>
__global__ void __launch_bounds__(kShuffleThreads, kManyFilterBlocksResident) wideFiltersKernel(ShuffleCall call) {
  constexpr int kFilters = kFiltersPerThread;
  constexpr int kOutputs = 4 / T;
  constexpr int kRows = kWideFilterRows * T;
  constexpr int kInputRows = (kRows - 1) * T + F;
  constexpr int kLeft = Padded ? (F - 1) / 2 : 0;
  constexpr int kColumns = (kOutputs - 1) * T + F;

  extern __shared__ float4 filters[];
  const Shape& x = call.shape;
  const ShufflePlan& plan = call.plan;
  const int laneOfWarp = threadIdx.x % kWarpLanes;
  const unsigned stripsPerWarp = kWarpLanes / plan.lanes;
  const unsigned strip = laneOfWarp / plan.lanes;
  const Seams<kLeft, kColumns, true> seams(laneOfWarp, laneOfWarp % plan.lanes, plan.lanes);
  const unsigned items = plan.segments * plan.runs;
  const FilterBlock block(x, (items + stripsPerWarp - 1) / stripsPerWarp, kFilters);
  const unsigned wanted = (block.firstItem + threadIdx.x / kWarpLanes) * stripsPerWarp + strip;
  const bool active = strip < stripsPerWarp && wanted < items;
  const unsigned item = active ? wanted : 0;
  const int chunk = item % plan.segments * plan.lanes + seams.lane();
  const int firstP = item / plan.segments * kRows;
  const int w = active ? chunk * 4 : -1;
  const int edgeW = active ? seams.edgeColumn(w) : -1;
  const int q = chunk * kOutputs;
  const int firstH = firstP * T - x.padTop;

  // Filter i, output column o at i * kOutputs + o.
  float sum[kRows][kFilters * kOutputs];
#pragma unroll
  for (int i = 0; i < kFilters * kOutputs; ++i) {
    const float start = block.bias(call, i / kOutputs);
#pragma unroll
    for (int t = 0; t < kRows; ++t) sum[t][i] = start;
  }

  const float* map = block.maps(call);
  const auto load = [&](Chunk& own, Chunk& edge, int v) {
    const int h = firstH + v;
    const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(x.h);
    const float* row = map + h * x.w;
    withWidth(call.loadWidth, [&]<int kWidth>() {
      own = loadChunk<kWidth>(row + w, w, x.w, inside);
      if (plan.edges) edge = loadChunk<kWidth>(row + edgeW, edgeW, x.w, inside);
    });
  };
  waitForKernelsBefore();
  Chunk own, edge = zeroChunk();
  load(own, edge, 0);
  letNextKernelBegin();
  const float4* ofChannel = nullptr;
  int staged = 0;
  for (int c = 0; c < x.groupInputs; ++c, ofChannel += F * F) {
    if (c == staged) {
      // Everybody has used those before.
      if (c > 0) __syncthreads();
      const int channels = min(plan.channels, x.groupInputs - c);
      block.stage<kFilters>(reinterpret_cast<float*>(filters), call, c, channels);
      __syncthreads();
      ofChannel = filters;
      staged += channels;
    }
#pragma unroll 1
    for (int v = 0; v < kInputRows; ++v) {
      float columns[kColumns];
      seams.extend(columns, own, edge);
      // The next row, perhaps of the next map, is on its way during the arithmetic.
      const bool last = v == kInputRows - 1;
      if (last) map += x.h * x.w;
      if (!last || c + 1 < x.groupInputs) load(own, edge, last ? 0 : v + 1);
#pragma unroll
      for (int t = 0; t < kRows; ++t) {
        const int r = v - t * T;
        if (r < 0 || r >= F) continue;
#pragma unroll
        for (int s = 0; s < F; ++s) {
          const float4 taps = ofChannel[r * F + s];
#pragma unroll
          for (int o = 0; o < kOutputs; ++o) {
            const float column = columns[o * T + s];
            sum[t][o] = fmaf(column, taps.x, sum[t][o]);
            sum[t][kOutputs + o] = fmaf(column, taps.y, sum[t][kOutputs + o]);
            sum[t][2 * kOutputs + o] = fmaf(column, taps.z, sum[t][2 * kOutputs + o]);
            sum[t][3 * kOutputs + o] = fmaf(column, taps.w, sum[t][3 * kOutputs + o]);
          }
        }
      }
    }
  }

  const int outputs = active ? x.q - q : 0;
  const int firstK = block.group * x.groupOutputs + block.first;
  const int filtersHere = min(kFilters, x.groupOutputs - block.first);
  const auto indexOf = [&](int t, int i) { return ((block.n * x.k + firstK + i) * x.p + firstP + t) * x.q + q; };
  if (!isFinished(call.epilogue)) {
    const Epilogue rest{nullptr, call.epilogue.residual, call.epilogue.activation};
    finishInTurn(sum, [&](int t, float(&row)[kFilters * kOutputs]) {
      if (firstP + t >= x.p) return;
#pragma unroll
      for (int i = 0; i < kFilters * kOutputs; ++i) {
        if (i / kOutputs >= filtersHere || i % kOutputs >= outputs) continue;
        row[i] = finish(rest, row[i], firstK + i / kOutputs, indexOf(t, i / kOutputs) + i % kOutputs);
      }
    });
  }
  withWidth(call.storeWidth, [&]<int kWidth>() {
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
#pragma unroll
      for (int i = 0; i < kFilters; ++i) {
        if (firstP + t >= x.p || i >= filtersHere) continue;
        float y[kOutputs];
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) y[o] = sum[t][i * kOutputs + o];
        storeOutputs<kWidth>(call.tensors.output + indexOf(t, i), y, outputs);
      }
    }
  });
}

template <int F, int T>
cudaError_t launch(const ShuffleCall& call, cudaStream_t stream) {
  const auto kernel = call.shape.padLeft > 0 ? wideFiltersKernel<F, T, true> : wideFiltersKernel<F, T, false>;
  return launchKernel(kernel, call.launch(), stream, call);
}

}  // namespace

cudaError_t launchWideFilters(const ShuffleCall& call, cudaStream_t stream) {
  if (call.shape.s == 9) return launch<9, 1>(call, stream);
  return withSquareFilter(call.shape.s, call.shape.strideW, [&]<int F, int T>() { return launch<F, T>(call, stream); });
}

}  // namespace warpconv::cuda
