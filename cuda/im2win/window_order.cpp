#include "cuda/im2win/window_order.h"

namespace warpconv::cuda::im2win {
namespace {

/** A stride beyond 31 bits leaves room for one window only, whose index it is multiplied by is zero. */
int strideOf(int64_t elements) { return static_cast<int>(static_cast<uint32_t>(elements)); }

template <typename Step>
std::vector<WindowStep> orderOf(const Shape& x, int length, Step&& step) {
  std::vector<WindowStep> steps;
  steps.reserve(static_cast<size_t>(length));
  for (int c = 0; c < x.groupInputs; ++c) {
    for (int s = 0; s < x.s; ++s) {
      for (int r = 0; r < x.r; ++r) steps.push_back(step(c, s, r));
    }
  }
  steps.resize(static_cast<size_t>(length), {0, kPastTheEnd});
  return steps;
}

}  // namespace

WindowLayout inputLayout(const Shape& x) {
  const int map = x.h * x.w;
  return {-x.padTop * x.w - x.padLeft,
          x.groupInputs * map,
          x.c * map,
          strideOf(int64_t{x.strideH} * x.w),
          x.strideW,
          x.r,
          x.s};
}

WindowLayout tensorLayout(const Shape& x, int paddedWidth) {
  const int row = paddedWidth * x.r;
  return {0, x.groupInputs * x.p * row, x.c * x.p * row, row, strideOf(int64_t{x.strideW} * x.r), 0, 0};
}

std::vector<WindowStep> inputOrder(const Shape& x, int length) {
  return orderOf(x, length, [&](int c, int s, int r) {
    const uint32_t bits = uint32_t{1} << r | uint32_t{1} << (x.r + s);
    return WindowStep{(c * x.h + r * x.dilationH) * x.w + s * x.dilationW, bits};
  });
}

std::vector<WindowStep> tensorOrder(const Shape& x, int paddedWidth, int length) {
  return orderOf(x, length, [&](int c, int s, int r) {
    return WindowStep{(c * x.p * paddedWidth + s * x.dilationW) * x.r + r, 1};
  });
}

std::vector<int64_t> inputOrderKey(const Shape& x, int length) {
  return {0, length, x.groupInputs, x.r, x.s, x.h, x.w, x.dilationH, x.dilationW};
}

std::vector<int64_t> tensorOrderKey(const Shape& x, int paddedWidth, int length) {
  return {1, length, x.groupInputs, x.r, x.s, x.p, paddedWidth, x.dilationW};
}

}  // namespace warpconv::cuda::im2win
