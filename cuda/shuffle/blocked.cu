#include "cuda/epilogue/finish_in_turn.cuh"
#include "cuda/shuffle/exchange.cuh"
#include "cuda/shuffle/filter_block.cuh"

namespace warpconv::cuda {
namespace {

struct BlockedCall {
  ShuffleCall call;
  Lattice rows, columns;
};

/** Elements of a row of a window: columns first, first + apart, … */
struct Elements {
  static constexpr int kMost = 4;
  int first, apart, count;
  float x[kMost];
};

/** A thread's sums: `Rows` output rows of one column, and as many filters as a block has. */
template <int Rows, int Filters>
struct Sums {
  float sum[Rows][Filters];

  /** Row reuse: elements of row v of the windows to every output row that needs them. */
  __device__ void add(const Elements& elements, int v, const Shape& shape, int stride, const float* filters) {
#pragma unroll
    for (int t = 0; t < Rows; ++t) {
      const int r = v - t * stride;
      if (r < 0 || r >= shape.r) continue;
      const float* tap = filters + (r * shape.s + elements.first) * Filters;
#pragma unroll
      for (int i = 0; i < Elements::kMost; ++i, tap += elements.apart * Filters) {
        if (i >= elements.count) break;
        float weights[Filters];
        if constexpr (Filters == 4) {
          const float4 all = *reinterpret_cast<const float4*>(tap);
          weights[0] = all.x, weights[1] = all.y, weights[2] = all.z, weights[3] = all.w;
        } else {
          weights[0] = *tap;
        }
#pragma unroll
        for (int k = 0; k < Filters; ++k) sum[t][k] = fmaf(elements.x[i], weights[k], sum[t][k]);
      }
    }
  }
};

/** Calls take(elements) until it has had every element of a row of the lane's window, by a load for each. */
template <typename Load, typename Take>
__device__ void loadColumns(int taps, const Load& load, const Take& take) {
  for (int s = 0; s < taps; s += Elements::kMost) {
    Elements elements{s, 1, min(Elements::kMost, taps - s), {}};
#pragma unroll
    for (int i = 0; i < Elements::kMost; ++i) {
      if (i < elements.count) elements.x[i] = load(s + i);
    }
    take(elements);
  }
}

/** The same by column reuse, for rows of any width, and without a load outside of the window. */
template <typename Load, typename Take>
__device__ void reuseColumns(int taps, int stride, int lane, const Load& load, const Take& take) {
  if (stride == 1) {
    float seam = load(0);
    int s = 0;
    for (; s + 4 < taps; s += 4) {
      float five[5] = {seam, 0.0f, 0.0f, 0.0f, load(s + 4)};
      fillFive(five, lane);
      take({s, 1, 4, {five[0], five[1], five[2], five[3]}});
      seam = five[4];
    }
    // The end of the chain: the seam and 0 to 3 more columns.
    Elements end{s, 1, taps - s, {seam}};
    if (end.count == 2) end.x[1] = load(s + 1);
    if (end.count >= 3) {
      end.x[2] = load(s + 2);
      end.x[1] = between<1>(seam, end.x[2], lane);
    }
    if (end.count == 4) end.x[3] = load(s + 3);
    take(end);
    return;
  }
  // Lane y has elements stride * y + phase; those of later lanes are the next columns of the same phase.
  for (int phase = 0; phase < min(stride, taps); ++phase) {
    const float own = load(phase);
    for (int s = phase, ahead = 0; s < taps; s += Elements::kMost * stride, ahead += Elements::kMost) {
      Elements elements{s, stride, min(Elements::kMost, (taps - s + stride - 1) / stride), {}};
#pragma unroll
      for (int i = 0; i < Elements::kMost; ++i) elements.x[i] = __shfl_down_sync(kAllLanes, own, ahead + i);
      take(elements);
    }
  }
}

/**
 * Any filter, stride, dilation and number of maps. Block b owns `filters` output channels of one group of one image,
 * and its warps an item each: `columns` output columns of one residue of the row's lattice, and `Rows` output rows of
 * one residue of the other lattice. Lane y owns column segment * columns + y. Items are numbered segment fastest, then
 * column residue, then run, then row residue. Shared memory: the block's filters of `channels` input maps at a time.
 * Rows outside of the input are skipped, columns outside of it load as zeros; lanes beyond Q load, to lend, and do not
 * store.
 */
template <bool Column, int Rows, int Filters>
__global__ void __launch_bounds__(kShuffleThreads, kManyFilterBlocksResident) blockedKernel(BlockedCall all) {
  extern __shared__ float4 shared[];
  float* const filters = reinterpret_cast<float*>(shared);
  const Shape& x = all.call.shape;
  const ShufflePlan& plan = all.call.plan;
  const Lattice& rows = all.rows;
  const Lattice& columns = all.columns;
  const int lane = threadIdx.x % kWarpLanes;

  const unsigned items = plan.segments * columns.residues * plan.runs * rows.residues;
  const FilterBlock block(x, items, Filters);
  const unsigned item = block.firstItem + threadIdx.x / kWarpLanes;
  const bool active = item < items;

  const int column = item % plan.segments * plan.columns + lane;
  const int columnResidue = item / plan.segments % columns.residues;
  const int firstRow = item / plan.segments / columns.residues % plan.runs * Rows;
  const int rowResidue = item / plan.segments / columns.residues / plan.runs;
  const int q = columnResidue + columns.residues * column;
  const int w = columnResidue * columns.fullStride + columns.dilation * columns.stride * column - columns.pad;
  const int firstH = rowResidue * rows.fullStride + rows.dilation * rows.stride * firstRow - rows.pad;
  const int taps = x.r * x.s;
  const float* const maps = block.maps(all.call);
  waitForKernelsBefore();
  letNextKernelBegin();

  Sums<Rows, Filters> sums;
#pragma unroll
  for (int i = 0; i < Filters; ++i) {
    const float start = block.bias(all.call, i);
#pragma unroll
    for (int t = 0; t < Rows; ++t) sums.sum[t][i] = start;
  }
  for (int firstC = 0; firstC < x.groupInputs; firstC += plan.channels) {
    const int channels = min(plan.channels, x.groupInputs - firstC);
    __syncthreads();
    block.stage<Filters>(filters, all.call, firstC, channels);
    __syncthreads();
    if (!active) continue;
    for (int c = 0; c < channels; ++c) {
      const float* map = maps + (firstC + c) * x.h * x.w;
      const float* ofChannel = filters + c * taps * Filters;
      for (int v = 0; v < (Rows - 1) * rows.stride + x.r; ++v) {
        const int h = firstH + rows.dilation * v;
        // The whole warp is on row h.
        if (h < 0 || h >= x.h) continue;
        const auto load = [&](int s) { return elementAt(map + h * x.w, w + columns.dilation * s, x.w); };
        const auto take = [&](const Elements& elements) { sums.add(elements, v, x, rows.stride, ofChannel); };
        if constexpr (Column) {
          reuseColumns(x.s, columns.stride, lane, load, take);
        } else {
          loadColumns(x.s, load, take);
        }
      }
    }
  }
  if (!active || lane >= plan.columns || q >= x.q) return;
  const Epilogue rest{nullptr, all.call.epilogue.residual, all.call.epilogue.activation};
  finishInTurn(sums.sum, [&](int t, float(&row)[Filters]) {
    const int p = rowResidue + rows.residues * (firstRow + t);
    if (p >= x.p) return;
#pragma unroll
    for (int i = 0; i < Filters; ++i) {
      if (block.first + i >= x.groupOutputs) continue;
      const int k = block.group * x.groupOutputs + block.first + i;
      const int index = ((block.n * x.k + k) * x.p + p) * x.q + q;
      all.call.tensors.output[index] = finish(rest, row[i], k, index);
    }
  });
}

template <bool Column, int Rows>
cudaError_t launch(const BlockedCall& all, cudaStream_t stream) {
  const ShufflePlan& plan = all.call.plan;
  const auto kernel =
      plan.filters == 1 ? blockedKernel<Column, Rows, 1> : blockedKernel<Column, Rows, kFiltersPerThread>;
  return launchKernel(kernel, all.call.launch(), stream, all);
}

}  // namespace

cudaError_t launchBlocked(const ShuffleCall& call, cudaStream_t stream) {
  const Shape& x = call.shape;
  const BlockedCall all{call, makeLattice(x.strideH, x.dilationH, x.padTop, x.r),
                        makeLattice(x.strideW, x.dilationW, x.padLeft, x.s)};
  if (call.plan.columnReuse) {
    return call.plan.rowReuse ? launch<true, kBlockedRows>(all, stream) : launch<true, 1>(all, stream);
  }
  return call.plan.rowReuse ? launch<false, kBlockedRows>(all, stream) : launch<false, 1>(all, stream);
}

}  // namespace warpconv::cuda
