#pragma once

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/halo/block.cuh"
#include "cuda/halo/filter_element.cuh"
#include "cuda/kernel/cluster.cuh"
#include "cuda/tensor_core/fp16_split.cuh"

namespace warpconv::cuda::halo {

/**
 * The sum of output channel `k` of the group at `point` by multiply-adds, channel by channel and without padding: see
 * PatchLoader::store, and TensorSums, for which sums of products may not be finite although this one is.
 */
__device__ inline float sumAgain(const Arguments& x, const Place& place, int k, const Point& point) {
  const Shape& s = x.shape;
  const int block = place.group * x.outputBlocks + k / kWarpgroupM;
  const uint32_t* filter = x.filter + int64_t{block} * x.chunks * x.groups * kGroupWords;
  const float inverse = x.filterInverses[block * kWarpgroupM + k % kWarpgroupM];
  const float* const input = x.input + (point.n * s.c + place.group * s.groupInputs) * s.h * s.w;
  float sum = 0.0f;
#pragma unroll 1
  for (int c = 0; c < x.channels; ++c) {
    const uint32_t* const chunk = filter + int64_t{c / kChunkChannels} * x.groups * kGroupWords +
                                  (c % kChunkChannels / 8 * kWarpgroupM + k % kWarpgroupM) * 4 + c % 8 / 2;
#pragma unroll 1
    for (int tap = 0; tap < x.groups * kGroupTaps; ++tap) {
      if (x.tapIndex[tap] == kNoTap) continue;
      const FilterElement element = filterElement(x, x.tapIndex[tap], c);
      const int h = point.row * s.strideH + element.row * s.dilationH - s.padTop;
      const int w = point.column * s.strideW + element.column * s.dilationW - s.padLeft;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w || !exists(x, element)) continue;
      const uint32_t* const words = chunk + tap * 2 * kHalfWords;
      const float weight = joinFp16({words[0], words[kHalfWords]}, c % 2, inverse);
      sum = fmaf(weight, input[(element.map * s.h + h) * s.w + w], sum);
    }
  }
  return sum;
}

/**
 * Finishes and writes the outputs whose sums the blocks of a cluster have staged, each block a share of the rows and
 * each thread four adjacent positions at a time. Of kBlocks blocks, or where that is 0, of several. `kPlain`: see
 * Given.
 */
template <HaloTile kTile, int kBlocks, bool kPlain>
class Finish {
 public:
  /** `offsets`: of the outputs of channel 0. */
  __device__ Finish(const Arguments& x, const Place& place, float* shared, const int* offsets)
      : x_(x),
        place_(place),
        column_(threadIdx.x % kColumns * 4),
        shared_(shared + column_),
        staged_(shared_),
        own_(offsets + column_),
        firstK_(place.group * x.shape.groupOutputs + place.m0) {
    const int4 four = *reinterpret_cast<const int4*>(own_);
    offsets_[0] = four.x, offsets_[1] = four.y, offsets_[2] = four.z, offsets_[3] = four.w;
    const int share = kBlocks > 0 ? kShare : x.byCluster.quotient(kTile.blockM + x.cluster - 1);
    first_ = place.rank * share + threadIdx.x / kColumns;
    const int end = min(min(kTile.blockM, x.shape.groupOutputs - place.m0), (place.rank + 1) * share);
    end_ = threadIdx.x < kRows * kColumns ? end : first_;
    if constexpr (kBiasesEarly) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int row = first_ + i * kRows;
        biases_[i] = row < end_ ? biasOf(x.epilogue, firstK_ + row) : 0.0f;
      }
    }
  }

  __device__ void run() const {
    const int map = x_.shape.p * x_.shape.q;
    bool finite;
    if (kPlain || isBounded(x_.epilogue)) {
      const auto store = [&](AdjacentSums<4>& sums, int row, int i) {
        finishBounded(x_.epilogue, sums, kBiasesEarly ? biases_[i] : biasOf(x_.epilogue, firstK_ + row));
        storeEach(sums, offsets_, (place_.m0 + row) * map, x_.output);
      };
      // Four rows of a thread together, which took 2 to 3 % from layers at batch 128, and of two blocks 1 % from layers
      // at batch 1. Of four blocks it added 2 to 3 %: their memory is read at a rate then, and not only after a while.
      if constexpr (kBlocks > 0) {
        finite = forEachRow<kTogether, kBlocks>(store);
      } else if (x_.cluster == 2) {
        finite = forEachRow<4, 2>(store);
      } else {
        finite = forEachRow<2, kMostBlocks>(store);
      }
    } else {
      finite = forEachRow < 1,
      kBlocks == 1 ? 1 : kMostBlocks > ([&](AdjacentSums<4>& sums, int row, int) {
                           finishEach(x_.epilogue, sums, firstK_ + row, offsets_, (place_.m0 + row) * map, x_.output);
                         });
    }
    if (!finite) finishAgain();
  }

 private:
  static constexpr int kColumns = kTile.blockN / 4;
  static constexpr int kRows = kTile.threads() / kColumns;
  static constexpr bool kClustered = kBlocks != 1;
  /** Rows of a block */
  static constexpr int kShare = kBlocks > 0 ? (kTile.blockM + kBlocks - 1) / kBlocks : 0;
  /** Of them, those of a thread that are read together */
  static constexpr int kTogether = kShare > 3 * kRows ? 4 : (kShare + kRows - 1) / kRows;

  /** Biases are read as the blocks wait for each other: a thread's rows are all read together. */
  static constexpr bool kBiasesEarly = kPlain && kBlocks > 1;

  __device__ int cluster() const { return kBlocks > 0 ? kBlocks : x_.cluster; }

  /** The block `count` after this one, round the cluster: no two read of the same one at the same time. */
  __device__ int rankAfter(int count) const {
    const int rank = place_.rank + count;
    return rank < cluster() ? rank : rank - cluster();
  }
  __device__ float* rowAt(int row) const { return shared_ + row * kTile.outputPitch(); }

  /**
   * Calls store(sums, row), of a cluster of up to kMost, and so many rows whose parts are read together. Says whether
   * all sums are finite; those that are not take the place of this block's own part of them, which no other thread
   * reads.
   */
  template <int kCount, int kMost>
  __device__ bool forEachRow(auto&& store) const {
    bool finite = true;
    if (kClustered && first_ >= end_) tellClusterRead();
#pragma unroll 1
    for (int row = first_; row < end_; row += kCount * kRows) {
      AdjacentSums<4> sums[kCount]{};
      addStaged<kMost>(sums, row);
      // Nobody leaves while another block still reads.
      if (kClustered && row + kCount * kRows >= end_) tellClusterRead();
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (row + i * kRows >= end_) break;
        if (!areFinite(sums[i])) {
          finite = false;
          sums[i].store(rowAt(row + i * kRows));
        }
        store(sums[i], row + i * kRows, i);
      }
    }
    return finite;
  }

  /** Those of `row` and, where there are any, of those kRows further down: all loads are under way together. */
  template <int kMost, int kCount>
  __device__ void addStaged(AdjacentSums<4> (&sums)[kCount], int row) const {
    AdjacentSums<4> staged[kCount][kMost];
    const auto forEachPart = [&](auto&& visit) {
#pragma unroll
      for (int count = 0; count < kMost; ++count) {
        if (count >= cluster()) break;
        visit(count);
      }
    };
    const auto forEachOwn = [&](auto&& visit) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (row + i * kRows < end_) visit(i);
      }
    };
    forEachPart([&](int count) {
      const float* const first = count == 0 ? rowAt(row) : staged_.in(rankAfter(count), row * kTile.outputPitch());
      forEachOwn([&](int i) { staged[i][count] = AdjacentSums<4>::load(first + i * kRows * kTile.outputPitch()); });
    });
    forEachPart([&](int count) { forEachOwn([&](int i) { sums[i].add(staged[i][count].x); }); });
  }

  /** Those outputs whose sums were not finite. */
  __device__ void finishAgain() const {
    const int map = x_.shape.p * x_.shape.q;
#pragma unroll 1
    for (int row = first_; row < end_; row += kRows) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        if (isfinite(rowAt(row)[i]) || own_[i] == kBeyond) continue;
        const int k = place_.m0 + row, index = own_[i] + k * map;
        const float sum = sumAgain(x_, place_, k, pointAt(x_, place_.n0 + column_ + i));
        x_.output[index] = finish(x_.epilogue, sum, place_.group * x_.shape.groupOutputs + k, index);
      }
    }
  }

  const Arguments& x_;
  const Place& place_;
  int column_;
  /** The first row of this thread's columns: its own block's, and any block's of the cluster */
  float* shared_;
  ClusterPlace staged_;
  /** Its offsets, in shared memory and in registers */
  const int* own_;
  int offsets_[4];
  int first_, end_;
  /** Output channel of row 0 */
  int firstK_;
  float biases_[kBiasesEarly ? kTogether : 1];
};

}  // namespace warpconv::cuda::halo
