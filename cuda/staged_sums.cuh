#pragma once

namespace warpconv::cuda {

/** kCount adjacent numbers: one or four. */
template <int kCount>
struct alignas(4 * kCount) Sums {
  float x[kCount];

  __device__ void add(const Sums& other) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] += other.x[i];
  }
};

/**
 * Sums in shared memory on their way out, rows `first` to `end` - 1 of a tile: row r begins at rows + r * pitch, and of
 * each there are `copies`, `apart` floats from each other, which are to be added in that order.
 */
struct StagedRows {
  const float* rows;
  int pitch, first, end, copies, apart;

  template <int kCount>
  __device__ Sums<kCount> sumAt(int row, int column) const {
    const float* from = rows + row * pitch + column;
    Sums<kCount> sum = *reinterpret_cast<const Sums<kCount>*>(from);
#pragma unroll 4
    for (int copy = 1; copy < copies; ++copy) sum.add(*reinterpret_cast<const Sums<kCount>*>(from + copy * apart));
    return sum;
  }
};

}  // namespace warpconv::cuda
