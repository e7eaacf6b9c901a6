#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"
#include "devices/cpu_info.h"
#include "problem/conv_problem.h"

namespace warpconv::winograd {

/** Elements of a transformed tile, 4 x 4: component 4i + j is element (i, j). */
inline constexpr int64_t kComponents = 16;

/** Adjacent tiles of one row of tiles: lanes `lane` to `lane + count` of a group; tile i is (row, column + i). */
struct TileRun {
  int64_t lane;
  int64_t count;
  int64_t row;
  int64_t column;
};

/** Tiles that a micro-kernel takes together: one after the other along the rows of tiles, over their ends. */
struct TileGroup {
  TileRun runs[kPackedWindows];
  int64_t runCount;
  /** Of all runs */
  int64_t tiles;
};

/** How the output tiles of one image are cut. */
struct Tiling {
  /** Tiles of a row of tiles, and of the image */
  int64_t columns;
  int64_t tiles;
  /** Groups of the image: as few as the micro-kernel's windows allow, of nearly equal size */
  int64_t groups;
  /** Groups whose transformed inputs a thread holds in its L2 cache */
  int64_t groupsAtOnce;

  TileGroup group(int64_t index) const;
};

/** A pure function of its arguments. */
Tiling cutTiles(const ConvProblem& problem, int64_t mostWindows, const CpuCaches& caches);

/**
 * Floats from one component of a group's transformed inputs, [component][c][kPackedWindows], to the next: with a line
 * to spare, lest the components of a channel share one cache set.
 */
inline int64_t componentFloats(const ConvProblem& x) { return (x.groupInputs() + 1) * kPackedWindows; }

/** Floats of a group's transformed inputs. */
inline int64_t groupFloats(const ConvProblem& x) { return kComponents * componentFloats(x); }

}  // namespace warpconv::winograd
