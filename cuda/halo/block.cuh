#pragma once

#include <cstddef>

#include "cuda/epilogue/adjacent_sums.cuh"
#include "cuda/halo/arguments.h"
#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/in_register.cuh"
#include "cuda/kernel/phase_barrier.cuh"
#include "cuda/kernel/ring_place.cuh"

namespace warpconv::cuda::halo {

/** Where a block's share begins. */
struct Place {
  int group, rank;
  /** First output channel of the group, first position */
  int m0, n0;
  int firstChunk, chunks;
};

template <HaloTile kTile>
__device__ Place placeOf(const Arguments& x) {
  Place place;
  place.rank = static_cast<int>(blockIdx.x);
  place.m0 = x.byCluster.divide(place.rank);
  place.n0 = x.byTilesM.divide(place.m0);
  place.group = x.byTilesN.divide(place.n0);
  place.m0 *= kTile.blockM, place.n0 *= kTile.blockN;
  place.firstChunk = place.rank * x.chunksPerBlock;
  place.chunks = min(x.chunksPerBlock, x.chunks - place.firstChunk);
  return place;
}

/** Of the grid; an image beyond the last where there is none. */
struct Point {
  int n, row, column;
};

__device__ inline Point pointAt(const Arguments& x, int position) {
  if (static_cast<uint32_t>(position) >= static_cast<uint32_t>(x.positions)) return {x.shape.n, 0, 0};
  int row = position;
  const int n = x.byImage.divide(row);
  int column = row;
  row = x.byRow.divide(column);
  return {n, row, column};
}

/** What a position has of the input. */
struct Element {
  /** Of the first element of channel 0, which may lie outside */
  int offset;
  /** Bit r: row r of the fold is padding; bit foldRows + s: column s is; and kPastTheLast */
  uint32_t outside;

  /** In place of one beyond the patch or the last image: all that is read there is zero. */
  static __device__ Element none() { return {0, ~uint32_t{0}}; }
};

__device__ inline bool isFolded(const Arguments& x) { return x.foldRows * x.foldColumns > 1; }

/** `kPlain`: see Given. */
template <bool kPlain>
__device__ Element elementAt(const Arguments& x, const Place& place, int phase, int position) {
  const Point point = pointAt(x, position);
  const Shape& s = x.shape;
  if (point.n >= s.n) return Element::none();
  int columnPhase = phase;
  const int rowPhase = x.byColumnPhases.divide(columnPhase);
  const int h = point.row * s.strideH + rowPhase - s.padTop;
  const int w = point.column * s.strideW + columnPhase - s.padLeft;
  uint32_t outside = kPastTheLast;
  const int rows = kPlain ? 1 : x.foldRows, columns = kPlain ? 1 : x.foldColumns;
  for (int r = 0; r < rows; ++r) {
    outside |= static_cast<uint32_t>(static_cast<uint32_t>(h + r) >= static_cast<uint32_t>(s.h)) << r;
  }
  for (int c = 0; c < columns; ++c) {
    outside |= static_cast<uint32_t>(static_cast<uint32_t>(w + c) >= static_cast<uint32_t>(s.w)) << (rows + c);
  }
  return {((point.n * s.c + place.group * s.groupInputs) * s.h + h) * s.w + w, outside};
}

/** Offset in the output of channel 0 of the output at a position, or kBeyond where there is none. */
__device__ inline int outputOffset(const Arguments& x, const Place& place, int position) {
  const Point point = pointAt(x, position);
  const Shape& s = x.shape;
  if (point.n >= s.n || point.row >= s.p || point.column >= s.q) return kBeyond;
  return ((point.n * s.k + place.group * s.groupOutputs) * s.p + point.row) * s.q + point.column;
}

/**
 * Two barriers for each stage and slot, on which those who need it full or free wait, one for the first filters of all
 * slots, and the stages' scales.
 */
struct RingState {
  uint64_t barriers[2 * (kMostStages + kMostSlots) + 1];
  float inverses[kMostStages];
};

/**
 * A block's shared memory: a ring of stages, of a chunk's elements each, and one of slots, of a group of taps' filters
 * each; and what the elements are.
 */
template <HaloTile kTile>
class Rings {
 public:
  __device__ Rings(const Arguments& x, float4* memory, const RingState& state)
      : x_(x),
        memory_(memory),
        pixels_(x.phases * x.patch),
        stageBytes_(static_cast<int>(stageBytes(pixels_))),
        stages_(sharedAddress(memory)),
        slots_(stages_ + x.stages * stageBytes_),
        state_(inRegister(sharedAddress(&state))) {}

  /** By one thread, before the others know of them: firstFilters(), and all others. */
  __device__ void makeFirstBarrier() const {
    makePhaseBarrier(firstFilters(), 1);
    publishBarriers();
  }
  __device__ void makeBarriers() const {
    for (int i = 0; i < x_.stages; ++i) {
      makePhaseBarrier(full(i), kTile.loaders());
      makePhaseBarrier(free(i), kTile.threads() / 32);
    }
    for (int i = 0; i < x_.slots; ++i) {
      makePhaseBarrier(filtersFull(i), 1);
      makePhaseBarrier(filtersFree(i), kTile.threads() / 32);
    }
    publishBarriers();
  }

  /** Of a plane of a stage: of eight channels' halves */
  __device__ int planeBytes() const { return 16 * pixels_; }

  __device__ uint32_t stage(int i) const { return stages_ + i * stageBytes_; }
  __device__ uint32_t full(int i) const { return state_ + 8 * i; }
  __device__ uint32_t free(int i) const { return state_ + 8 * (kMostStages + i); }

  /** Of the filters of warpgroups at `m`: theirs of all slots follow each other. */
  __device__ uint32_t slot(int m, int i) const { return slots_ + (m * x_.slots + i) * kGroupBytes; }
  /** Full of what the slots are filled with first, all of them together; and of what comes to a slot later */
  __device__ uint32_t firstFilters() const { return state_ + 8 * 2 * (kMostStages + kMostSlots); }
  __device__ uint32_t filtersFull(int i) const { return state_ + 8 * (2 * kMostStages + i); }
  __device__ uint32_t filtersFree(int i) const { return state_ + 8 * (2 * kMostStages + kMostSlots + i); }

  /** Of the scale of a stage's elements */
  __device__ float inverse(int i) const {
    float inverse;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(inverse) : "r"(inverseAt(i)) : "memory");
    return inverse;
  }
  __device__ void setInverse(int i, float inverse) const {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(inverseAt(i)), "f"(inverse) : "memory");
  }

  __device__ Element* elements() const {
    return reinterpret_cast<Element*>(memory_ + (x_.stages * stageBytes_ + x_.slots * kTile.slotBytes()) / 16);
  }

 private:
  __device__ uint32_t inverseAt(int i) const {
    return state_ + static_cast<uint32_t>(offsetof(RingState, inverses)) + 4 * i;
  }

  const Arguments& x_;
  float4* memory_;
  /** Elements of a stage, and its bytes */
  int pixels_, stageBytes_;
  uint32_t stages_, slots_, state_;
};

}  // namespace warpconv::cuda::halo
