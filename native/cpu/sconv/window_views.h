#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"
#include "problem/conv_problem.h"

namespace warpconv::sconv {

/** `columns` adjacent windows of one output row or of two, from output (p, q) on. */
struct WindowRows {
  int64_t p;
  int64_t rows;
  int64_t q;
  int64_t columns;
};

/** Elements of `count` windows that lie one after the other: element e of window i at data[e * stride + i]. */
WindowView flatView(const float* data, int64_t elements, int64_t stride, int64_t count);

/** PaddedWindows::columns[s] of those windows. */
uint16_t columnsInside(const ConvProblem& problem, const WindowRows& windows, int64_t s);

/** The same windows as they lie in `channels` maps; `inside` is columnsInside of every s. */
WindowView viewInPlace(const ConvProblem& problem, const float* maps, int64_t channels, const WindowRows& windows,
                       const uint16_t* inside);

}  // namespace warpconv::sconv
