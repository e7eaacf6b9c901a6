#pragma once

#include <cstdint>

#include "cpu/vector_loops/folds.h"
#include "cpu/vector_loops/vector_loops.h"

/** VectorLoops::multiplyColumns and multiplyRows. Everything is local to the file that includes it, as elementary.h
 * explains. */
namespace warpconv {
namespace {

/** The matrix is read once for every four rows. */
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

  /** kRows x kColumns sums over k in vectors of partial sums; sums begin at `row` and `column`. */
  template <int kRows, int kColumns>
  static void multiplyTile(const FewRows& x, int64_t row, int64_t column) {
    const float* left = x.left + row * x.leftStride;
    const float* right = x.right + column * x.rightStride;
    Register total[kRows][kColumns] = {};
    const auto add = [&](auto loadAt) {
      Register a[kRows];
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) a[i] = loadAt(left + i * x.leftStride);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
        const Register b = loadAt(right + j * x.rightStride);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) total[i][j] += a[i] * b;
      }
    };
    int64_t k = 0;
    for (; k + kLanes <= x.k; k += kLanes) {
      add([k](const float* from) { return load<Vector>(from + k); });
    }
    if (k < x.k) {
      add([k, &x](const float* from) { return loadFirst(from + k, x.k - k); });
    }
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kColumns; ++j) {
        x.sums[(row + i) * x.sumsStride + column + j] = sumOfLanes<Vector>(total[i][j]);
      }
    }
  }

  template <int kRows>
  static void multiplyRowsOfTiles(const FewRows& x, int64_t row) {
    // Streams enough for the memory, and sums few enough for the registers: AVX-512 has 32, and the others 16.
    constexpr int kColumns = kRows > 2 && kLanes < 16 ? 2 : 4;
    int64_t column = 0;
    for (; column + kColumns <= x.columns; column += kColumns) multiplyTile<kRows, kColumns>(x, row, column);
    for (; column < x.columns; ++column) multiplyTile<kRows, 1>(x, row, column);
  }

  static void multiplyColumns(const FewRows& x) {
    int64_t row = 0;
    for (; row + 4 <= x.rows; row += 4) multiplyRowsOfTiles<4>(x, row);
    if (x.rows - row == 3) return multiplyRowsOfTiles<3>(x, row);
    if (x.rows - row == 2) return multiplyRowsOfTiles<2>(x, row);
    if (x.rows - row == 1) return multiplyRowsOfTiles<1>(x, row);
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
