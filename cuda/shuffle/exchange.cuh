#pragma once

#include <cstdint>

namespace warpconv::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/** The input element in column w of a row of `width`, or the zero of the padding. */
__device__ inline float elementAt(const float* row, int w, int width) {
  return static_cast<unsigned>(w) < static_cast<unsigned>(width) ? row[w] : 0.0f;
}

/**
 * Column reuse (seed 001, Algorithms 1 and 2). Lane x holds elements x (`first`) and x + 2D (`last`) of a row and gets
 * element x + D: lanes whose bit D is clear get it from lane x + D, which has it first, the others from lane x - D,
 * which has it last. What a lane gives away depends on the lane: an indexed array would fall into local memory, so both
 * candidates are packed into 64 bits and shifted by 0 or 32. `first` stays as it is, unlike in Algorithm 2 as printed.
 */
template <int D>
__device__ inline float between(float first, float last, int lane) {
  const uint64_t both = uint64_t{__float_as_uint(last)} << 32 | __float_as_uint(first);
  const int shift = (lane & D) == 0 ? 32 : 0;
  return __uint_as_float(__shfl_xor_sync(kAllLanes, static_cast<unsigned>(both >> shift), D));
}

/**
 * A link of a chain of sub-filters: elements 1 to 3 from elements 0 and 4. Neighbouring sub-filters share their seam,
 * so that an element is loaded for every four columns, not two for every five.
 */
__device__ inline void fillFive(float (&x)[5], int lane) {
  x[2] = between<2>(x[0], x[4], lane);
  x[1] = between<1>(x[0], x[2], lane);
  x[3] = between<1>(x[2], x[4], lane);
}

}  // namespace warpconv::cuda
