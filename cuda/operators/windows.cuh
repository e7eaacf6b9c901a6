#pragma once

#include <cstdint>

#include "cuda/kernel/fast_divisor.h"
#include "program/steps.h"

namespace warpconv::cuda::operators {

/** The taps of a window that lie within its map. */
struct Window {
  int plane;
  /** Where the first tap is, which may lie outside */
  int top, left;
  int beginR, endR, beginS, endS;
  /** Of an average */
  double divisor;
};

/** A PoolStep in the 32-bit integers that kernels compute with. */
struct Windows {
  int outputs;
  FastDivisor byColumn, byRow;
  int h, w, r, s;
  int strideH, strideW, dilationH, dilationW, padTop, padLeft;
  FastDivisor byDilationH, byDilationW;
  /** The first row and column that a padded element may not have any more */
  int endH, endW;
  bool countPadding;

  /** @param pieces of work */
  Windows(const program::PoolStep& step, int64_t pieces)
      : outputs(static_cast<int>(pieces)),
        byColumn(static_cast<int>(step.q)),
        byRow(static_cast<int>(step.p)),
        h(static_cast<int>(step.h)),
        w(static_cast<int>(step.w)),
        r(static_cast<int>(step.r)),
        s(static_cast<int>(step.s)),
        strideH(static_cast<int>(step.stride[0])),
        strideW(static_cast<int>(step.stride[1])),
        dilationH(static_cast<int>(step.dilation[0])),
        dilationW(static_cast<int>(step.dilation[1])),
        padTop(static_cast<int>(step.padding[0])),
        padLeft(static_cast<int>(step.padding[1])),
        byDilationH(static_cast<int>(step.dilation[0])),
        byDilationW(static_cast<int>(step.dilation[1])),
        endH(static_cast<int>(step.h + step.endPadding[0])),
        endW(static_cast<int>(step.w + step.endPadding[1])),
        countPadding(step.countPadding) {}

  /** That of output (plane * P + p) * Q + q. Taps outside of the map, of which there may be 2^60, are not looked at. */
  __device__ Window at(int output) const {
    // q = i % Q, p = i / Q % P, plane = i / (P * Q)
    int q = output;
    int p = byColumn.divide(q);
    const int plane = byRow.divide(p);
    const int top = p * strideH - padTop, left = q * strideW - padLeft;
    const auto rowsBefore = [&](int end) { return tapsBefore(end, top, r, dilationH, byDilationH); };
    const auto columnsBefore = [&](int end) { return tapsBefore(end, left, s, dilationW, byDilationW); };
    Window window{plane, top, left, rowsBefore(0), rowsBefore(h), columnsBefore(0), columnsBefore(w), 0};
    window.divisor = countPadding ? static_cast<double>(rowsBefore(endH)) * static_cast<double>(columnsBefore(endW))
                                  : static_cast<double>(window.endR - window.beginR) *
                                        static_cast<double>(window.endS - window.beginS);
    return window;
  }

 private:
  /** How many of a window's taps along an axis lie before `end`: it begins at `first`, which may be negative. */
  static __device__ int tapsBefore(int end, int first, int taps, int dilation, FastDivisor byDilation) {
    return first >= end ? 0 : min(taps, byDilation.quotient(end - first + dilation - 1));
  }
};

}  // namespace warpconv::cuda::operators
