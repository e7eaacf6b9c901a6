#include <algorithm>

#include "cpu/algorithm/epilogue.h"
#include "cpu/depthwise/depthwise_kernel.h"
#include "cpu/depthwise/depthwise_strips.h"
#include "cpu/vector/vector4.h"

namespace warpconv {
namespace {

struct Depthwise4 : Vector4 {
  using Vector4::store;

  static Lanes lanesInside(int64_t first, int64_t width, int64_t) { return Vector4::lanesInside(first, width); }
  static void store(Lanes lanes, float* to, Register value) {
    if (lanes.areAll()) return store(to, value);
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; ++i) {
      if (lanes.has(i)) to[i] = value[i];
    }
  }
  static Register broadcast(const float* from, int64_t) { return Vector4::broadcast(from); }
  static Register add(Register a, Register b) { return a + b; }
  static Register multiply(Register a, Register b) { return a * b; }
  static Register max(Register a, Register b) { return a > b ? a : b; }
  static Register min(Register a, Register b) { return a < b ? a : b; }

  template <int kTaps, int kStride>
  using Taps = strips::LoadedTaps<Depthwise4, kTaps, kStride>;
};

/** Outputs [begin, end) of a row whose tap at column q * stride + offset lies inside [0, width). */
struct Inside {
  int64_t begin;
  int64_t end;
};

Inside insideOf(int64_t outputs, int64_t stride, int64_t offset, int64_t width) {
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t past = offset >= width ? 0 : (width - offset + stride - 1) / stride;
  const int64_t begin = std::min(first, outputs);
  return {begin, std::max(begin, std::min(past, outputs))};
}

/** row[q] += weight * input[q * stride + offset]: one tap of the filter over one output row. */
void addTap(const ConvProblem& x, const float* input, float weight, int64_t offset, float* row) {
  const Inside inside = insideOf(x.q, x.stride.w, offset, x.w);
  if (x.stride.w == 1) {
    for (int64_t q = inside.begin; q < inside.end; ++q) row[q] += weight * input[q + offset];
  } else {
    for (int64_t q = inside.begin; q < inside.end; ++q) row[q] += weight * input[q * x.stride.w + offset];
  }
}

/** Any width of filter and any stride, tap by tap. */
void convolveByTaps(const DepthwiseMaps& maps) {
  const ConvProblem& x = *maps.problem;
  for (int64_t p = 0; p < x.p; ++p) {
    float* row = maps.output + p * x.q;
    std::fill_n(row, x.q, 0.0f);
    for (int64_t r = 0; r < x.r; ++r) {
      const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
      if (h < 0 || h >= x.h) continue;
      for (int64_t s = 0; s < x.s; ++s) {
        addTap(x, maps.input + h * x.w, maps.filter[r * x.s + s], s * x.dilation.w - x.padding.left, row);
      }
    }
    const float* residual = maps.finish.residual == nullptr ? nullptr : maps.finish.residual + p * x.q;
    finishOutputs(row, x.q, *maps.finish.bias, residual, maps.finish.activation);
  }
}

void convolve(const DepthwiseMaps& maps) {
  if (takesStrips(*maps.problem)) {
    strips::convolve<Depthwise4>(maps);
  } else {
    convolveByTaps(maps);
  }
}

}  // namespace

// 5.9e6: 11.8 GFLOP/s geometric over the depthwise layers of bench/layers/mobile.json on one Zen 4 core, compiled for
// SSE2.
extern const DepthwiseKernel kDepthwisePortable;
const DepthwiseKernel kDepthwisePortable{"f32_depthwise_portable", Isa::portable, 5.9e6, nullptr, convolve};

}  // namespace warpconv
