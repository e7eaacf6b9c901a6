#pragma once

#include <cstdint>

#include "devices/cpu_info.h"
#include "program/steps.h"

namespace warpconv {

/** One function of the elements that a window has in a row: of `taps` elements, `dilation` apart. */
struct WindowRow {
  int64_t taps;
  int64_t dilation;
  /** From window to window */
  int64_t stride;
};

/** At least one row of a map, `stride` floats from one to the next. */
struct WindowRows {
  const float* first;
  int64_t stride;
  int64_t count;
};

/** The larger ones, or the sums. */
struct WindowLoops {
  /** to[i] = element i of the first row and that of the second and … */
  void (*rows)(const WindowRows& rows, int64_t count, float* to);
  /** to[i] = values[i * stride] and values[i * stride + dilation] and …; may read one float beyond the last window */
  void (*windows)(const float* values, const WindowRow& window, int64_t count, float* to);
};

/** The product of a matrix of at most kMost rows and one of any number of columns. */
struct FewRows {
  static constexpr int64_t kMost = 8;

  const float* left;
  /** From row to row; a row's elements are adjacent */
  int64_t leftStride;
  int64_t rows;
  const float* right;
  /** From column to column, or from row to row, whichever has its own elements adjacent */
  int64_t rightStride;
  int64_t columns;
  int64_t k;
  /** rows x columns, with this from row to row */
  float* sums;
  int64_t sumsStride;
};

/** Loops over adjacent floats for one instruction set. What a loop writes overlaps nothing that it reads. */
struct VectorLoops {
  static constexpr int kOperations = static_cast<int>(program::ElementwiseStep::Operation::cos) + 1;

  /** to[i] = operation(a[i], b[i]); of one operand, b is not read. p and q are an instruction's. */
  using Function = void (*)(const float* a, const float* b, float* to, int64_t count, float p, float q);

  Isa isa;
  /** Of a vector: loops over multiples of it have no rest. */
  int64_t lanes;
  Function functions[kOperations];

  double (*sum)(const float* values, int64_t count);
  /** Of (value - centre)^2 */
  double (*sumOfSquares)(const float* values, int64_t count, float centre);
  /** NaN where there is one; the neutral infinity for nothing */
  float (*maximum)(const float* values, int64_t count);
  float (*minimum)(const float* values, int64_t count);
  /** to[i] = exp(values[i] - centre) */
  void (*expOfDifference)(const float* values, float centre, float* to, int64_t count);
  /** to[i] = (values[i] - centre) * factor + summand */
  void (*rescale)(const float* values, float centre, float factor, float summand, float* to, int64_t count);
  /** to[i] = (values[i] - centre) * factor * scale[i] + shift[i] */
  void (*normalize)(const float* values, float centre, float factor, const float* scale, const float* shift, float* to,
                    int64_t count);
  /** to[i] = values[i] * (bias + alpha * squares[i])^-beta */
  void (*localResponse)(const float* values, const float* squares, float* to, int64_t count, float alpha, float beta,
                        float bias);
  WindowLoops maximumWindows;
  WindowLoops sumWindows;
  /**
   * Of a right matrix whose columns have adjacent elements, or whose rows have. A sum is the same to the bit whatever
   * other columns are asked for with it.
   */
  void (*multiplyColumns)(const FewRows& product);
  void (*multiplyRows)(const FewRows& product);

  Function function(program::ElementwiseStep::Operation operation) const {
    return functions[static_cast<int>(operation)];
  }
};

/** The widest of those built that `isa` allows. */
const VectorLoops& vectorLoops(Isa isa);

}  // namespace warpconv
