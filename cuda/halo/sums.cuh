#pragma once

#include "cuda/halo/block.cuh"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::halo {

/** A group of taps of a chunk: what a warpgroup multiplies, and where that lies. */
struct TapGroup {
  /** Of its filters, and of the elements that each tap reads: what columnsAt(0, 0) lacks */
  uint32_t filters, columns[kGroupTaps];
  /** Of its elements; and whether no group before was of the same */
  int stage;
  bool beginsPart;
};

/**
 * A warpgroup's sums: kWarpgroupM output channels by kTile.columns positions, of filters that are scaled, each output
 * channel's by its own power of two, until finish(). Tensor cores cut off what they add up, so that products of high
 * halves are added to the sums by ordinary additions group by group; the others, each with a low half and small, part
 * by part. Those additions take the elements' scale out.
 */
template <HaloTile kTile>
class HaloSums {
 public:
  /** `planeBytes`: of elements. */
  __device__ HaloSums(const Arguments& x, const Place& place, int planeBytes)
      : lowColumns_(kChunkChannels / 8 * planeBytes >> 4) {
    const int warpgroup = warpgroupIndex();
    m_ = warpgroup % kTile.warpgroupsM() * kWarpgroupM;
    n_ = warpgroup / kTile.warpgroupsM() * kTile.columns;
    const int block = place.group * x.outputBlocks + (place.m0 + m_) / kWarpgroupM;
    const float* const inverses = x.filterInverses + (block * kWarpgroupM - m_ + firstRow());
    inverses_[0] = __ldg(inverses), inverses_[1] = __ldg(inverses + 8);
  }

  /** Where this warpgroup's columns lie of those at `columns`, whose planes are `planeBytes` large. */
  __device__ uint32_t ownColumns(uint32_t columns, int planeBytes) const {
    return static_cast<uint32_t>(columnsAt(columns + n_ * 16, planeBytes));
  }
  /** Where its filters lie in a slot. */
  __device__ uint32_t ownFilters(const Rings<kTile>& rings, int slot) const {
    return static_cast<uint32_t>(columnsAt(rings.slot(m_ / kWarpgroupM, slot), kFilterPlaneBytes));
  }

  /**
   * Adds a group, whose elements have a scale of which `inverse()` is the inverse. `meanwhile()` is called as products
   * run, of which none reads of the groups before any more. The compiler lets sums be read as others are made only
   * where all are waited for once in each turn of a loop.
   */
  __device__ void add(const TapGroup& group, auto&& inverse, auto&& meanwhile) {
    beginHigh(group);
    if (group.beginsPart) {
      const float next = inverse();
      if (inverse_ != 0.0f) {
        waitForProducts<1>(cross_);
        addCross();
      }
      inverse_ = next;
    }
    beginCross(group);
    meanwhile();
    waitForProducts<1>(high_);
    addUp(high_, inverse_);
    waitForProducts(cross_);
  }

  /** Once all are added. */
  __device__ void finish() {
    addCross();
    forEachPair([&](int i, int half) { sums_[i] *= inverses_[half], sums_[i + 1] *= inverses_[half]; });
  }

  /** Into shared memory as [m][n]. */
  __device__ void write(float* shared) const {
    forEachPair([&](int i, int half) {
      float* const at = shared + (firstRow() + half * 8) * kTile.outputPitch() + firstColumn() + i / 4 * 8;
      *reinterpret_cast<float2*>(at) = {sums_[i], sums_[i + 1]};
    });
  }

 private:
  static constexpr int kCount = kTile.columns / 2;
  /** Between the first eight channels of a tap's filters and the rest */
  static constexpr int kFilterPlaneBytes = kTapBytes / 4;
  /** As descriptors have them */
  static constexpr uint32_t kTap = kTapBytes >> 4, kLowFilters = kTap / 2;

  /** Calls take(i, half) for sums i and i + 1, which are neighbours, eight rows further down in the second half. */
  __device__ static void forEachPair(auto&& take) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) take(i, i / 2 % 2);
  }

  __device__ int firstRow() const { return m_ + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4; }
  __device__ int firstColumn() const { return n_ + threadIdx.x % 4 * 2; }

  __device__ void beginCross(const TapGroup& group) {
    beginProducts();
    forEachTap(group, [&]<bool kAdd>(uint32_t filters, uint32_t columns) {
      beginMultiplyFp16(cross_, place(filters + kLowFilters), place(columns), kAdd || !group.beginsPart);
      beginMultiplyFp16<true>(cross_, place(filters), place(columns + lowColumns_));
    });
    commitProducts();
  }
  __device__ void beginHigh(const TapGroup& group) {
    beginProducts();
    forEachTap(group, [&]<bool kAdd>(uint32_t filters, uint32_t columns) {
      beginMultiplyFp16<kAdd>(high_, place(filters), place(columns));
    });
    commitProducts();
  }
  __device__ static uint64_t place(uint32_t low) { return columnsAt(0, 0) | low; }
  __device__ void forEachTap(const TapGroup& group, auto&& begin) const {
    begin.template operator()<false>(group.filters, group.columns[0]);
#pragma unroll
    for (int i = 1; i < kGroupTaps; ++i) {
      begin.template operator()<true>(group.filters + i * kTap, group.columns[i]);
    }
  }

  __device__ void addCross() { addUp(cross_, inverse_ / kLowScale); }

  __device__ void addUp(const float (&products)[kCount], float inverse) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums_[i] = fmaf(products[i], inverse, sums_[i]);
      // Here, and not when the registers of these products are those of others.
      asm volatile("" : "+f"(sums_[i]));
    }
  }

  uint32_t lowColumns_;
  int m_, n_;
  float inverses_[2];
  /** Of the scale of the elements that are multiplied; 0 before the first */
  float inverse_ = 0.0f;
  /** Products of which one half is low, of a part; of high halves, of a group */
  float cross_[kCount];
  float high_[kCount];
  float sums_[kCount] = {};
};

/** The groups of a block's chunks, one after the other, as those who multiply them see them. */
template <HaloTile kTile>
class TapGroups {
 public:
  __device__ TapGroups(const Arguments& x, const Place& place, const Rings<kTile>& rings)
      : x_(x),
        rings_(rings),
        arrives_(inRegister(static_cast<int>(threadIdx.x % 32 == 0))),
        count_(inRegister(place.chunks * x.groups)),
        part_(parts() - 1) {}

  __device__ int count() const { return count_; }

  /** Until all filters that need not wait for a slot are there. */
  __device__ void awaitFirstFilters() const { waitForPhase(rings_.firstFilters(), 0); }

  /** Waits for the next group, of those that there are. */
  __device__ TapGroup reach(const HaloSums<kTile>& sums) {
    TapGroup group;
    group.beginsPart = tap_ == end_;
    if (group.beginsPart) reachPart(sums);
    group.stage = stage_;
#pragma unroll
    for (int i = 0; i < kGroupTaps; ++i) group.columns[i] = inRegister(columns_ + x_.taps[tap_ + i]);
    tap_ += kGroupTaps;
    // A slot's own barrier is for what it is filled with from the second time on.
    if (reached_ >= x_.slots) waitForPhase(rings_.filtersFull(slot_.stage), slot_.parity ^ 1);
    group.filters = inRegister(sums.ownFilters(rings_, slot_.stage));
    slot_.advance(x_.slots);
    ++reached_;
    return group;
  }

  /** Gives back where the group before `group`, the last that was reached, lies: no product reads of it any more. */
  __device__ void spendBefore(const TapGroup& group) {
    if (arrives_ != 0) arrive(rings_.filtersFree(spentSlot_));
    if (++spentSlot_ == x_.slots) spentSlot_ = 0;
    if (!group.beginsPart) return;
    if (arrives_ != 0) arrive(rings_.free(spentStage_));
    if (++spentStage_ == x_.stages) spentStage_ = 0;
  }

 private:
  __device__ int parts() const { return kTile.inParts ? x_.parts : 1; }

  __device__ void reachPart(const HaloSums<kTile>& sums) {
    if (!kTile.inParts || ++part_ == x_.parts) part_ = 0, tap_ = 0;
    end_ = kTile.inParts ? x_.partEnds[part_] : x_.groups * kGroupTaps;
    waitForPhase(rings_.full(ring_.stage), ring_.parity);
    // Here, since those who have stored them would wait for the next ones' loads.
    publishToProducts();
    columns_ = sums.ownColumns(rings_.stage(ring_.stage), rings_.planeBytes());
    stage_ = ring_.stage;
    ring_.advance(x_.stages);
  }

  const Arguments& x_;
  const Rings<kTile>& rings_;
  /** Whether this thread tells what its warp has done */
  int arrives_;
  int count_, reached_ = 0;
  /** The next group's part, first tap, and where the part's end; where its elements lie */
  int part_, tap_ = 0, end_ = 0, stage_ = 0;
  uint32_t columns_ = 0;
  RingPlace ring_, slot_;
  int spentStage_ = 0, spentSlot_ = 0;
};

}  // namespace warpconv::cuda::halo
