#pragma once

#include <cstdint>

#include "cpu/vector_loops/folds.h"
#include "cpu/vector_loops/vector_loops.h"

/** VectorLoops::multiplyColumns and multiplyRows. Everything is local to the file that includes it, as elementary.h
 * explains. */
namespace warpconv {
namespace {

template <class Vector>
struct FewRowsProduct {
  using Register = typename Vector::Register;
  static constexpr int kLanes = Vector::kLanes;

  /** The first `count` lanes, and zeros */
  static Register loadFirst(const float* from, int64_t count) {
    float lanes[kLanes] = {};
    __builtin_memcpy(lanes, from, static_cast<size_t>(count) * sizeof(float));
    return load<Vector>(lanes);
  }

  /**
   * One column's sums for kRows rows from `row` on. Columns lie one after the other, and so the matrix is one stream:
   * on a core of Zen 4 a matrix of 1000 x 1280 comes from memory at 31 GB/s, and at 19 where four columns are read at a
   * time, which is four streams.
   */
  template <int kRows>
  static void multiplyColumn(const FewRows& x, int64_t row, int64_t column) {
    // Sums enough to hide the latency of additions, and few enough for 16 registers.
    constexpr int kSums = kRows > 2 ? 2 : 4;
    // Two pages, in floats: the processor foresees a stream within a page only. Where such a matrix comes from memory
    // in pages of 4 KB, it takes one core 190 us without, 161 with one page and 153 with two, which is what it takes in
    // huge pages; two cores 135 and 124.
    constexpr int64_t kAhead = 2048;
    const float* left = x.left + row * x.leftStride;
    const float* right = x.right + column * x.rightStride;
    Register total[kRows][kSums] = {};
    const auto add = [&](int sum, auto loadAt) {
      const Register b = loadAt(right);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) total[i][sum] += loadAt(left + i * x.leftStride) * b;
    };
    int64_t k = 0;
    for (; k + kSums * kLanes <= x.k; k += kSums * kLanes) {
#pragma GCC unroll 4
      for (int sum = 0; sum < kSums; ++sum) {
        __builtin_prefetch(right + k + sum * kLanes + kAhead, 0, 2);
        add(sum, [at = k + sum * kLanes](const float* from) { return load<Vector>(from + at); });
      }
    }
    for (; k + kLanes <= x.k; k += kLanes) {
      add(0, [k](const float* from) { return load<Vector>(from + k); });
    }
    if (k < x.k) {
      add(0, [k, &x](const float* from) { return loadFirst(from + k, x.k - k); });
    }
    for (int i = 0; i < kRows; ++i) {
      for (int sum = 1; sum < kSums; ++sum) total[i][0] += total[i][sum];
      x.sums[(row + i) * x.sumsStride + column] = sumOfLanes<Vector>(total[i][0]);
    }
  }

  static void multiplyColumns(const FewRows& x) {
    for (int64_t column = 0; column < x.columns; ++column) {
      int64_t row = 0;
      for (; row + 4 <= x.rows; row += 4) multiplyColumn<4>(x, row, column);
      if (x.rows - row == 3) multiplyColumn<3>(x, row, column);
      if (x.rows - row == 2) multiplyColumn<2>(x, row, column);
      if (x.rows - row == 1) multiplyColumn<1>(x, row, column);
    }
  }

  /** sums of kRows rows from `row` on += kSteps rows of the right matrix from `k` on, times their elements. */
  template <int kRows, int kSteps>
  static void addRows(const FewRows& x, int64_t row, int64_t k) {
    const float* left = x.left + row * x.leftStride + k;
    const float* right = x.right + k * x.rightStride;
    float* sums = x.sums + row * x.sumsStride;
    const auto addAt = [&](int64_t column, auto loadAt, auto storeAt) {
      Register b[kSteps];
#pragma GCC unroll 4
      for (int step = 0; step < kSteps; ++step) b[step] = loadAt(right + step * x.rightStride + column);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        Register total = loadAt(sums + i * x.sumsStride + column);
#pragma GCC unroll 4
        for (int step = 0; step < kSteps; ++step) total += left[i * x.leftStride + step] * b[step];
        storeAt(sums + i * x.sumsStride + column, total);
      }
    };
    int64_t column = 0;
    for (; column + kLanes <= x.columns; column += kLanes) {
      addAt(column, load<Vector>, [](float* to, Register value) { __builtin_memcpy(to, &value, sizeof(value)); });
    }
    if (const int64_t count = x.columns - column; count > 0) {
      addAt(
          column, [count](const float* from) { return loadFirst(from, count); },
          [count](float* to, Register value) {
            __builtin_memcpy(to, &value, static_cast<size_t>(count) * sizeof(float));
          });
    }
  }

  template <int kSteps>
  static void addStep(const FewRows& x, int64_t k) {
    int64_t row = 0;
    for (; row + 4 <= x.rows; row += 4) addRows<4, kSteps>(x, row, k);
    for (; row < x.rows; ++row) addRows<1, kSteps>(x, row, k);
  }

  static void multiplyRows(const FewRows& x) {
    for (int64_t row = 0; row < x.rows; ++row) {
      for (int64_t column = 0; column < x.columns; ++column) x.sums[row * x.sumsStride + column] = 0.0f;
    }
    int64_t k = 0;
    for (; k + 4 <= x.k; k += 4) addStep<4>(x, k);
    for (; k < x.k; ++k) addStep<1>(x, k);
  }
};

}  // namespace
}  // namespace warpconv
