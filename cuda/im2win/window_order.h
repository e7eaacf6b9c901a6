#pragma once

#include <cstdint>
#include <vector>

#include "cuda/planning/shape.h"

namespace warpconv::cuda::im2win {

/**
 * One step of the reduction: where its element lies from the first element of a window, and for which windows it is
 * none: those that have one of these bits set.
 */
struct WindowStep {
  int offset;
  uint32_t bits;
};

/** Set for every window, and in every step past the end of the reduction: what is read there is zero. */
inline constexpr uint32_t kPastTheEnd = uint32_t{1} << 31;

/**
 * How window (n, p, q) of a group lies in a tensor. Its first element is at origin + group * groupStride +
 * n * imageStride + p * rowStride + q * columnStride, which may lie before the tensor where there is padding. Bit r
 * of a step in the input is filter row r, bit R + s filter column s, and a window has those set that lie in its
 * padding; a step in the im2win tensor has bit 0. A window past the last has all bits set.
 */
struct WindowLayout {
  int origin, groupStride, imageStride, rowStride, columnStride;
  /** Of the filter, where padding must be told apart; else both zero */
  int maskedRows, maskedColumns;
};

/** Rows and columns of a filter whose padding can be told apart */
inline constexpr int kMostMaskBits = 31;

/** In the input itself. Only for R + S <= kMostMaskBits. */
WindowLayout inputLayout(const Shape& shape);

/** In the im2win tensor N x C x P x (paddedWidth * R), where padding is written out. */
WindowLayout tensorLayout(const Shape& shape, int paddedWidth);

/** The reduction of one group, (c * S + s) * R + r, in the input; followed by steps past the end up to `length`. */
std::vector<WindowStep> inputOrder(const Shape& shape, int length);

/** The same in the im2win tensor. */
std::vector<WindowStep> tensorOrder(const Shape& shape, int paddedWidth, int length);

/** All that the two depend on: orders of the same key are the same. */
std::vector<int64_t> inputOrderKey(const Shape& shape, int length);
std::vector<int64_t> tensorOrderKey(const Shape& shape, int paddedWidth, int length);

}  // namespace warpconv::cuda::im2win
