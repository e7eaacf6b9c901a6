#pragma once

#include <cstdint>

#include "host_device.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda {

struct GpuRequest;

/**
 * The kernels of the family. All but `blocked` are for square 3, 5 and 7 filters of stride 1 and 2, undilated but for
 * `dilated`. `wideFilters` also takes 9 x 9 filters of stride 1.
 */
enum class ShuffleForm {
  /** A column a thread, one input map: walks down it with a rolling window of accumulators */
  sliding,
  /** A column a thread, any filter and any number of maps: a few output rows at a time, several filters a thread */
  blocked,
  /** Four input columns a thread, one input map: the rolling window again */
  wide,
  /** Four input columns a thread, several maps and filters */
  wideFilters,
  /** A column a thread, one input map, dilated: the rolling window over the rows of one residue */
  dilated,
  /** Whole small maps of a depthwise convolution in shared memory, a few columns a thread */
  planes,
};

constexpr bool hasOneMapPerFilter(ShuffleForm form) {
  return form == ShuffleForm::sliding || form == ShuffleForm::wide || form == ShuffleForm::dilated ||
         form == ShuffleForm::planes;
}

/**
 * One axis of a strided and dilated convolution as `residues` interleaved ones without dilation. Output i of residue
 * x is output x + residues * i of the axis, and its tap r reads input
 * x * fullStride + dilation * (stride * i + r) - pad. (With g = gcd(stride, dilation): residues = dilation / g.)
 */
struct Lattice {
  int residues, stride;
  int fullStride, dilation, pad;
};

Lattice makeLattice(int stride, int dilation, int pad, int taps);

inline constexpr int kWarpLanes = 32;
inline constexpr int kShuffleWarps = 4;
inline constexpr int kShuffleThreads = kShuffleWarps * kWarpLanes;
/** Filters of a thread in the forms that take several input maps; one 16-byte load of shared memory brings a tap of
 * each. */
inline constexpr int kFiltersPerThread = 4;
/** Output rows of a thread in `blocked`, where rows are reused. */
inline constexpr int kBlockedRows = 8;
/** Input rows that a thread of `wide` asks for at once; while it works on them, the next are on their way. */
inline constexpr int kWideBatch = 4;
/** Warps of `wide` that a multiprocessor holds, by the registers that an F x F filter needs, in rows of one strip or of
 * more. */
constexpr int wideWarpsResident(int filterExtent, bool edges) {
  return filterExtent == 3 ? 20 : filterExtent == 5 && !edges ? 16 : 12;
}
/** Blocks of `blocked` and `wideFilters` likewise. */
inline constexpr int kManyFilterBlocksResident = 4;
/** Warps of `sliding` likewise. */
constexpr int slidingWarpsResident(int filterExtent) { return filterExtent == 3 ? 48 : filterExtent == 5 ? 32 : 20; }
/** Warps of `dilated` likewise. */
constexpr int dilatedWarpsResident(int filterExtent) { return filterExtent == 3 ? 32 : filterExtent == 5 ? 20 : 16; }
/**
 * Adjacent output columns of a thread in `planes`. With a stride of 2 fewer warps of 7 columns fit into shared memory
 * (docs/experiments.md).
 */
constexpr int planeColumns(int stride) { return stride == 1 ? 7 : 4; }
template <int T>
inline constexpr int kPlaneColumns = planeColumns(T);
/** Blocks of `planes`, of one warp each, that a multiprocessor holds by the registers they need. */
constexpr int planeBlocksResident(int filterExtent) { return filterExtent == 7 ? 12 : 16; }
/** Whether `planes` writes outputs over the maps: they are as large, and a row has been read when its output is known.
 */
WARPCONV_HOST_DEVICE inline bool outputsReplaceMaps(const Shape& x) {
  return x.strideH == 1 && x.p == x.h && x.q == x.w;
}
/** Output rows of a thread in `wideFilters`, for each unit of stride. */
inline constexpr int kWideFilterRows = 4;
/** Shared memory that every device gives without being asked. */
inline constexpr int kSharedBytes = 48 * 1024;

/** What the launch of a form needs beside the problem. Fields that a form has no use for are 1. */
struct ShufflePlan {
  ShuffleForm form = ShuffleForm::blocked;
  bool columnReuse = true;
  bool rowReuse = true;
  /** Output rows of one item, the work of a strip of lanes */
  int run = 1;
  /** Lanes of an item along a row; a warp has 32 / lanes of them side by side */
  int lanes = kWarpLanes;
  /** Output columns of an item */
  int columns = kWarpLanes;
  /** A strip of lanes is not the whole row: its ends need the strips beside it */
  bool edges = false;
  /** Items beside each other in a row, and one above the other in a map */
  int segments = 1;
  int runs = 1;
  /** Of one block: output channels that its threads have, or maps that lie in its shared memory */
  int filters = 1;
  int planes = 1;
  /** Input maps whose filters lie in shared memory at the same time */
  int channels = 1;
  int sharedBytes = 0;
  /** Warps that have an item, in all, and the blocks that hold them */
  int64_t warps = 1;
  int64_t blocks = 1;
  /** Blocks that a multiprocessor holds, at least */
  int64_t blocksResident = kManyFilterBlocksResident;
};

/** Only for what `refuseShuffle` lets pass. */
ShufflePlan planShuffle(const GpuRequest& request);

}  // namespace warpconv::cuda
