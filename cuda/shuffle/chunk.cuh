#pragma once

#include "cuda/shuffle/exchange.cuh"

namespace warpconv::cuda {

/** Four adjacent columns of an input row, the first of them a multiple of four. */
struct Chunk {
  float x[4];
};

__device__ inline Chunk zeroChunk() { return {{0.0f, 0.0f, 0.0f, 0.0f}}; }

/** What take<kWidth>() returns for a width of 4, 2 or 1 elements: one branch, where many accesses follow. */
template <typename Take>
__device__ inline auto withWidth(int width, const Take& take) {
  if (width == 4) return take.template operator()<4>();
  return width == 2 ? take.template operator()<2>() : take.template operator()<1>();
}

/**
 * The chunk at `at`, which is column w of a row of `width`, by loads of kWidth elements, which divides `width`: so that
 * a load lies inside of the row or outside. Zeros outside, and everywhere unless `inside`.
 */
template <int kWidth>
__device__ inline Chunk loadChunk(const float* at, int w, int width, bool inside) {
  Chunk chunk = zeroChunk();
  inside = inside && w >= 0;
#pragma unroll
  for (int i = 0; i < 4; i += kWidth) {
    if (!inside || w + i >= width) continue;
    if constexpr (kWidth == 4) {
      const float4 all = *reinterpret_cast<const float4*>(at);
      chunk = {{all.x, all.y, all.z, all.w}};
    } else if constexpr (kWidth == 2) {
      const float2 two = *reinterpret_cast<const float2*>(at + i);
      chunk.x[i] = two.x;
      chunk.x[i + 1] = two.y;
    } else {
      chunk.x[i] = at[i];
    }
  }
  return chunk;
}

/**
 * Where a lane stands in its strip of `lanes` lanes, and what it needs of the others. Lane y of a strip holds chunk y
 * of it; a window that begins kLeft columns before the chunk and is kColumns wide takes the rest from its neighbours.
 * At the ends of a strip that is not the whole row (kEdges), lanes 0 and 1 hold in `edge` the two chunks after the
 * strip and the last lane the one before it: in a rotation they give these away, which nobody else asks them for.
 */
template <int kLeft, int kColumns, bool kEdges>
class Seams {
 public:
  static constexpr int kAfter = kColumns - kLeft > 8 ? 2 : kColumns - kLeft > 4 ? 1 : 0;
  static constexpr bool kBefore = kLeft > 0;
  static_assert(kLeft <= 4 && kColumns - kLeft <= 12);

  __device__ Seams(int laneOfWarp, int lane, int lanes) : lane_(lane), lanes_(lanes) {
    const int first = laneOfWarp - lane;
    // Where the rotation is shorter than the step, another strip's end gives the same zero.
    before_ = first + (lane == 0 ? lanes - 1 : lane - 1);
    after_ = first + (lane + 1 < lanes ? lane + 1 : lane + 1 - lanes);
    afterNext_ = first + (lane + 2 < lanes ? lane + 2 : lane + 2 - lanes);
  }

  __device__ int lane() const { return lane_; }

  /** The column of the chunk that this lane lends at the ends of the strip, whose own chunk is at w; or -1. */
  __device__ int edgeColumn(int w) const {
    if (lane_ < kAfter) return w + 4 * lanes_;
    if (kBefore && lane_ == lanes_ - 1) return w - 4 * lane_ - 4;
    return -1;
  }

  /** The window: kColumns columns from kLeft before the chunk. All lanes of the warp take part. */
  __device__ void extend(float (&window)[kColumns], const Chunk& own, const Chunk& edge) const {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int offset = i - kLeft;
      if (offset < 0) {
        window[i] = take(offset + 4, lane_ == lanes_ - 1, before_, own, edge);
      } else if (offset < 4) {
        window[i] = own.x[offset];
      } else if (offset < 8) {
        window[i] = take(offset - 4, lane_ < 1, after_, own, edge);
      } else {
        window[i] = take(offset - 8, lane_ < 2, afterNext_, own, edge);
      }
    }
  }

 private:
  __device__ static float take(int element, bool givesEdge, int from, const Chunk& own, const Chunk& edge) {
    const float atEdge = kEdges ? edge.x[element] : 0.0f;
    return __shfl_sync(kAllLanes, givesEdge ? atEdge : own.x[element], from);
  }

  int lane_, lanes_;
  int before_, after_, afterNext_;
};

}  // namespace warpconv::cuda
