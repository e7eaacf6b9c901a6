#pragma once

#include <cstdint>

#include "devices/cpu_info.h"
#include "problem/conv_problem.h"

namespace warpconv::sconv {

/** The micro-kernel's largest tile: windows (N_win) and filters (N_f). */
struct TileShape {
  int64_t windows;
  int64_t filters;
};

/** Which tiles stay in the L1 cache while the others pass by. */
enum class Schedule { inputStationary, weightStationary };

/**
 * How a convolution is cut, in the terms of Convolution Slicing Analysis (Ferrari et al., SConv, section 4.1).
 * "Stationary" tiles are input tiles in an input-stationary schedule and filter tiles in a weight-stationary one;
 * "moving" tiles are the others.
 */
struct Slicing {
  /** N_win: windows of one input tile; at most the micro-kernel's, and fewer where that spreads a map more evenly */
  int64_t windows;
  /** N_f */
  int64_t filters;
  /** N_c: input channels of one channel set */
  int64_t channels;
  Schedule schedule;
  /** K2: moving tiles held in the L2 cache */
  int64_t k2;
  /** K3: stationary tiles held in the L3 cache */
  int64_t k3;
  /** C_TOTAL of Equation 6, in cycles, of the chosen schedule and of the other */
  double cost;
  double otherCost;
};

/** A pure function of its arguments: Equations 1 to 14. */
Slicing sliceConvolution(const ConvProblem& problem, const TileShape& tile, const CpuCaches& caches);

}  // namespace warpconv::sconv
