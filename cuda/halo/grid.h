#pragma once

#include <cstdint>
#include <vector>

#include "cuda/halo/tile.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda::halo {

/**
 * One axis of the grid. Padded input element x is of phase x % stride and at place x / stride; output i reads of phase
 * tap * dilation % stride the place i + tap * dilation / stride.
 */
struct GridAxis {
  /** Of which taps read some elements; one where elements of a position are folded */
  int64_t phases = 1;
  /**
   * Places from one row, or image, to the next. Padding behind a row is that before the next one where there is enough
   * of it: what a window reads beyond the pitch are zeros of the next row.
   */
  int64_t pitch = 1;
};

/** `fold`: 1, or a multiple of the stride of so many elements that a position has, where nothing is dilated. */
GridAxis gridAxis(int64_t input, int64_t output, int64_t taps, int64_t stride, int64_t dilation, int64_t padBefore,
                  int64_t fold = 1);

/** Where tap (r, s) reads: in which phase, and how many positions after the output's own. */
struct Tap {
  int64_t phase;
  int64_t shift;
};

/** How a problem's elements are laid out. */
struct Layout {
  /**
   * Elements of a channel that a position has, rows by columns. Where there are several, each counts as a channel of
   * its own, taps lie so far apart, and phases are not told apart: of few channels, chunks are filled.
   */
  Extent fold;
  /** Whether phases are brought to shared memory, and multiplied, one after the other, and not together */
  bool inParts = false;
};

/** The order in which taps are multiplied: part by part, each part's in groups, the last of which is filled up. */
struct TapOrder {
  /** Of Grid::taps, or kNoTap */
  std::vector<uint8_t> taps;
  /** Where each part ends */
  std::vector<uint8_t> ends;
};
inline constexpr uint8_t kNoTap = 255;

/**
 * A convolution as sums over taps of matrices that begin at different places. Images, rows and columns lie one after
 * the other in a line of positions; position (n * rows.pitch + p) * columns.pitch + q is that of output (n, p, q) and,
 * in each phase, of one input element or padding. Positions between outputs are computed with and not stored.
 */
struct Grid {
  Layout layout;
  GridAxis rows, columns;
  int64_t positions = 0;
  /** Those up to the last output's: what follows is padding alone, and no tile of it is computed. */
  int64_t outputPositions = 0;
  /** Row by row of the filter */
  std::vector<Tap> taps;
  TapOrder order;
  /** The largest shift */
  int64_t reach = 0;

  int64_t phases() const { return rows.phases * columns.phases; }
  /** How often a chunk's elements are brought, and how many groups of taps are multiplied with them in all */
  int64_t parts() const { return static_cast<int64_t>(order.ends.size()); }
  int64_t groups() const { return static_cast<int64_t>(order.taps.size()) / kGroupTaps; }
};

/** For problems of 32-bit offsets, and a layout of layoutsOf. */
Grid makeGrid(const ConvProblem& problem, const Layout& layout = {});

/** Channels that a position has: a group's, each with what is folded. */
int64_t foldedChannels(const ConvProblem& problem, const Grid& grid);

/** Elements that are folded together with a group's channels, at most */
inline constexpr int kMostFolded = 64;
/** Rows and columns of a fold whose padding can be told apart */
inline constexpr int kMostFoldBits = 31;

/** Whether there are several phases, each of which some tap reads, and no more than kMostParts. */
bool canBeInParts(const ConvProblem& problem);

/** The layouts to choose from: phases together and in parts; and for few channels that are not dilated, folded. */
std::vector<Layout> layoutsOf(const ConvProblem& problem);

}  // namespace warpconv::cuda::halo
