#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"
#include "cpu/microkernels/portable.h"

/**
 * Microkernel::pack, written once over a vector type and instantiated like the outer product. Beside what the store
 * needs, the type has
 * - `Mask`, lanes(begin, end), and load(mask, from), which gives zeros elsewhere;
 * - `Columns`, numbers of 2 * kLanes columns in two registers: columns(step) is 0, step, 2 * step, …, ahead(columns,
 * by) adds, pick(low, high, columns) gathers, and any number beyond the two registers picks anything;
 * - storeWindows(to, first, value), which may touch lanes that a later segment of the tile writes and those beside it.
 */
namespace warpconv::vectors {

template <class Vector>
typename Vector::Register loadOrZero(typename Vector::Mask lanes, const float* from) {
  return from == nullptr ? Vector::zero() : Vector::load(lanes, from);
}

/** `count` elements of every row of the filter, from element `first` on. */
struct RowElements {
  int64_t first;
  int64_t count;
};

/**
 * Vector-based packing (SConv, section 6.2): windows i of element s are columns i * stride + s * dilation of a row, so
 * two loads serve all of `elements`, whose columns are fewer than 2 * kLanes.
 */
template <class Vector>
void packElements(const WindowTile& tile, const WindowSegment& at, const RowElements& elements, float* dst) {
  const ConvProblem& x = *tile.problem;
  const int64_t begin = at.w + elements.first * x.dilation.w, width = x.w, count = elements.count;
  const typename Vector::Mask low = Vector::lanes(-begin, width - begin);
  const typename Vector::Mask high = Vector::lanes(-begin - Vector::kLanes, width - begin - Vector::kLanes);
  const typename Vector::First windows = Vector::first(at.count);
  const typename Vector::Columns firstColumns = Vector::columns(static_cast<int>(x.stride.w));
  const int dilation = static_cast<int>(x.dilation.w);
  dst += at.lane + elements.first * kPackedWindows;
  for (int64_t c = 0; c < tile.channels; ++c) {
    const float* map = tile.maps + c * x.h * width;
    for (int64_t r = 0; r < x.r; ++r, dst += x.s * kPackedWindows) {
      const int64_t h = at.h + r * x.dilation.h;
      const float* row = h >= 0 && h < x.h ? map + h * width + begin : nullptr;
      const typename Vector::Register left = loadOrZero<Vector>(low, row);
      const typename Vector::Register right = loadOrZero<Vector>(high, row == nullptr ? nullptr : row + Vector::kLanes);
      typename Vector::Columns columns = firstColumns;
      for (int64_t s = 0; s < count; ++s) {
        Vector::storeWindows(dst + s * kPackedWindows, windows, Vector::pick(left, right, columns));
        columns = Vector::ahead(columns, dilation);
      }
    }
  }
}

template <class Vector>
void pack(const WindowTile& tile, float* dst) {
  const ConvProblem& x = *tile.problem;
  const WindowSegment& last = tile.segments[tile.segmentCount - 1];
  const int64_t lastColumn = (last.lane + last.count - 1) * x.stride.w;
  const int64_t room = 2 * Vector::kLanes - 1 - lastColumn;
  if (room < 0) return portable::pack(tile, dst);
  const int64_t atOnce = room / x.dilation.w + 1;
  for (int64_t i = 0; i < tile.segmentCount; ++i) {
    for (int64_t s = 0; s < x.s; s += atOnce) {
      packElements<Vector>(tile, tile.segments[i], {s, x.s - s < atOnce ? x.s - s : atOnce}, dst);
    }
  }
}

/**
 * Microkernel::turn: kLanes rows by kLanes columns at a time. Beside what pack needs, the type has load of First, zeros
 * elsewhere.
 */
template <class Vector>
void turn(const float* from, int64_t stride, int64_t rows, int64_t columns, int64_t width, float* dst) {
  constexpr int64_t kLanes = Vector::kLanes;
  for (int64_t column = 0; column < columns; column += kLanes) {
    const int64_t count = columns - column < kLanes ? columns - column : kLanes;
    const typename Vector::First lanes = Vector::first(count);
    for (int64_t first = 0; first < width; first += kLanes) {
      typename Vector::Register block[kLanes];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kLanes; ++i) {
        const bool isRow = first + i < rows;
        block[i] = isRow ? Vector::load(lanes, from + (first + i) * stride + column) : Vector::zero();
      }
      Vector::transpose(block);
      if (count == kLanes) {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes; ++i) Vector::store(dst + (column + i) * width + first, block[i]);
      } else {
        alignas(64) float turned[kLanes * kLanes];
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes; ++i) Vector::store(turned + i * kLanes, block[i]);
        for (int64_t i = 0; i < count; ++i) {
          Vector::store(dst + (column + i) * width + first, Vector::load(turned + i * kLanes));
        }
      }
    }
  }
}

}  // namespace warpconv::vectors
