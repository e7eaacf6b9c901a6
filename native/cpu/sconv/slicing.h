#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "devices/cpu_info.h"
#include "problem/conv_problem.h"
#include "problem/sconv_switches.h"

namespace warpconv::sconv {

/** The micro-kernel's largest tile: windows (N_win) and filters (N_f). */
struct TileShape {
  int64_t windows;
  int64_t filters;
  /** Tiles that are no multiple of so many windows take as long as the next multiple */
  int64_t windowStep = 1;
};

/**
 * How a convolution is cut, in the terms of Convolution Slicing Analysis (Ferrari et al., SConv, section 4.1).
 * "Stationary" tiles are input tiles in an input-stationary schedule and filter tiles in a weight-stationary one;
 * "moving" tiles are the others.
 */
struct Slicing {
  Presentation presentation;
  /**
   * N_win: windows of one input tile; at most the micro-kernel's, and fewer where that spreads a map, or an output row
   * unless windows are packed, more evenly
   */
  int64_t windows;
  /** Input tiles of one output row; 0 where tiles run on over the ends of rows */
  int64_t tilesPerRow;
  /** Whole output rows of one tile, where they are short; otherwise 1 */
  int64_t rowsPerTile;
  /** N_f */
  int64_t filters;
  /** N_c: input channels of one channel set */
  int64_t channels;
  Schedule schedule;
  /** All input tiles of a channel set are ready before the first is multiplied; not where none is packed */
  bool packAhead;
  /** K2: moving tiles held in the L2 cache */
  int64_t k2;
  /** K3: stationary tiles held in the L3 cache */
  int64_t k3;
  /** C_TOTAL of Equation 6, in cycles, of the chosen schedule and of the other */
  double cost;
  double otherCost;
};

/** Input tiles of one group of one image. */
int64_t inputTiles(const ConvProblem& problem, const Slicing& slicing);

/** One pointwise convolution is a matrix product whose rows end nowhere. */
bool isFlat(const ConvProblem& problem);

/** The sentence that refuses a problem because windows cannot be presented so, or nothing. */
std::optional<std::string> presentationRefusal(const ConvProblem& problem, Presentation presentation);

/**
 * A pure function of its arguments: Equations 1 to 14. The presentation that `switches` ask for must be one that the
 * problem can have.
 */
Slicing sliceConvolution(const ConvProblem& problem, const TileShape& tile, const CpuCaches& caches,
                         const Switches& switches = {});

}  // namespace warpconv::sconv
