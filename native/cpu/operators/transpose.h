#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/vector/pick_lanes.h"

namespace warpconv::operators {

/** to[column * toStride + row] = from[row * fromStride + column] */
template <typename T>
void transposePlainly(const T* from, int64_t fromStride, int64_t rows, int64_t columns, T* to, int64_t toStride) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) to[column * toStride + row] = from[row * fromStride + column];
  }
}

/** Four elements of four bytes, by the compiler's own vectors: SSE2 on x86-64, NEON on arm64. */
typedef uint32_t FourElements __attribute__((vector_size(16)));

/** Likewise 4 x 4 elements of four bytes. */
template <typename T>
void transposeFour(const T* from, int64_t fromStride, T* to, int64_t toStride) {
  FourElements rows[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&rows[i], from + i * fromStride, sizeof(FourElements));
  const FourElements a = pickLanes<0, 4, 1, 5>(rows[0], rows[1]);
  const FourElements b = pickLanes<2, 6, 3, 7>(rows[0], rows[1]);
  const FourElements c = pickLanes<0, 4, 1, 5>(rows[2], rows[3]);
  const FourElements d = pickLanes<2, 6, 3, 7>(rows[2], rows[3]);
  const FourElements columns[4] = {pickLanes<0, 1, 4, 5>(a, c), pickLanes<2, 3, 6, 7>(a, c),
                                   pickLanes<0, 1, 4, 5>(b, d), pickLanes<2, 3, 6, 7>(b, d)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * toStride, &columns[i], sizeof(FourElements));
}

/** Columns of a strip: a cache line of floats, so that each line that is read is used up while it is there. */
inline constexpr int64_t kStripColumns = 16;

/** Transposes as above up to kStripColumns columns. */
template <typename T>
void transposeStrip(const T* from, int64_t fromStride, int64_t rows, int64_t columns, T* to, int64_t toStride) {
  if constexpr (sizeof(T) != sizeof(uint32_t)) {
    transposePlainly(from, fromStride, rows, columns, to, toStride);
  } else {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      int64_t column = 0;
      for (; column + 4 <= columns; column += 4) {
        transposeFour(from + row * fromStride + column, fromStride, to + column * toStride + row, toStride);
      }
      transposePlainly(from + row * fromStride + column, fromStride, 4, columns - column, to + column * toStride + row,
                       toStride);
    }
    transposePlainly(from + row * fromStride, fromStride, rows - row, columns, to + row, toStride);
  }
}

}  // namespace warpconv::operators
