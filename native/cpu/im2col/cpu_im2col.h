#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/**
 * The textbook way and the baseline of SConv's evaluation (Ferrari et al., section 7): the windows of one group of one
 * image become the columns of a matrix, which the filters then multiply. The product is the sconv algorithm on a
 * pointwise problem, with its filter panels and micro-kernel, so that the two differ by slicing and packing alone.
 * Takes every problem whose matrix may exist; where the input is the matrix already, nothing is written.
 */
extern const CpuAlgorithm kIm2col;

}  // namespace warpconv
