#pragma once

#include <cmath>
#include <cstdint>

#include "cpu/algorithm/epilogue.h"
#include "cpu/depthwise/depthwise_kernel.h"

/**
 * Depthwise convolution, written once over a vector type as microkernels/outer_product.h is: each instruction set's
 * file instantiates it with a type of its own, so that no code of a wider instruction set can be linked into a narrower
 * one.
 *
 * A vector holds kLanes adjacent columns of a map, or of two maps side by side. `apart` below is the distance in
 * elements from anything of the first map to the same of the second; a vector of one map ignores it. A vector type has
 * `kLanes`, `Register`, `Lanes` (a choice of lanes) and static lanesInside(first, width, apart): the lanes i with 0 <=
 * first + i < width; load(lanes, from), zero in the other lanes, and store(lanes, to, value): neither touches another
 * element, and store's lanes begin with lane 0; broadcast(from, apart), add(a, b), multiply(a, b), multiplyAdd(a, b, c)
 * = a * b + c; max(a, b) and min(a, b): b when either is NaN; even(a, b): elements 0, 2, … of a and b laid end to end;
 * odd(a, b): elements 1, 3, …; and a class `Taps<kTaps, kStride>` that loads what the taps of a filter row multiply:
 * LoadedTaps, or one like it.
 */
namespace warpconv::strips {

/** Which lanes of one tap lie inside the input: of kLanes adjacent columns, at stride 2 of twice as many. */
template <class Vector, int kStride>
struct TapLanes {
  typename Vector::Lanes lanes[kStride];

  void choose(int64_t column, int64_t width, int64_t apart) {
#pragma GCC unroll 2
    for (int i = 0; i < kStride; ++i) lanes[i] = Vector::lanesInside(column + i * Vector::kLanes, width, apart);
  }
};

/**
 * Element i of tap s is row[i * kStride + s], or zero outside the input. Every tap is loaded, at stride 2 every two: to
 * shift them out of two AVX-512 loads was 4 % slower at stride 1 and 9 % faster at stride 2 with 3 x 3 filters (Zen 4).
 */
template <class Vector, int kTaps, int kStride>
class LoadedTaps {
 public:
  /** `column` is the input column of row[0]. */
  LoadedTaps(int64_t column, int64_t width, int64_t apart) {
#pragma GCC unroll 8
    for (int s = 0; s < kTaps; s += kStride) inside_[s].choose(column + s, width, apart);
  }

  void load(const float* row, typename Vector::Register* taps) const {
#pragma GCC unroll 8
    for (int s = 0; s < kTaps; s += kStride) {
      const auto low = Vector::load(inside_[s].lanes[0], row + s);
      if constexpr (kStride == 1) {
        taps[s] = low;
      } else {
        const auto high = Vector::load(inside_[s].lanes[1], row + s + Vector::kLanes);
        taps[s] = Vector::even(low, high);
        if (s + 1 < kTaps) taps[s + 1] = Vector::odd(low, high);
      }
    }
  }

 private:
  TapLanes<Vector, kStride> inside_[kTaps];
};

/** What happens to the sums of kLanes output columns. Activations that are no clamps are left to finishOutputs. */
template <class Vector>
class StripFinish {
 public:
  static bool takes(ActivationKind kind) {
    return kind == ActivationKind::none || kind == ActivationKind::relu || kind == ActivationKind::clip;
  }

  StripFinish(const DepthwiseMaps& maps, int64_t q)
      : lanes_(Vector::lanesInside(q, maps.problem->q, maps.problem->p * maps.problem->q)),
        residual_(maps.finish.residual),
        output_(maps.output) {
    const Activation& activation = maps.finish.activation;
    const bool isClip = activation.kind == ActivationKind::clip;
    const float low = isClip ? activation.first : activation.kind == ActivationKind::relu ? 0.0f : -INFINITY;
    const float high = isClip ? activation.second : INFINITY;
    low_ = Vector::broadcast(&low, 0);
    high_ = Vector::broadcast(&high, 0);
  }

  void store(int64_t offset, typename Vector::Register sum) const {
    if (residual_ != nullptr) sum = Vector::add(sum, Vector::load(lanes_, residual_ + offset));
    Vector::store(lanes_, output_ + offset, Vector::min(high_, Vector::max(low_, sum)));
  }

 private:
  const typename Vector::Lanes lanes_;
  const float* const residual_;
  float* const output_;
  typename Vector::Register low_;
  typename Vector::Register high_;
};

/**
 * The output rows that the current input rows belong to: open[j] is the sum of output row p - j. Row p * kStride + t of
 * the padded input is filter row t + j * kStride of it.
 */
template <class Vector, int kRows, int kColumns, int kStride>
class OpenRows {
 public:
  using Register = typename Vector::Register;
  static constexpr int kOpen = (kRows + kStride - 1) / kStride;

  OpenRows(const float* filter, const float* bias) : bias_(Vector::broadcast(bias, 1)) {
#pragma GCC unroll 32
    for (int i = 0; i < kRows * kColumns; ++i) weight_[i] = Vector::broadcast(filter + i, kRows * kColumns);
#pragma GCC unroll 8
    for (int j = 0; j < kOpen; ++j) open_[j] = bias_;
  }

  /** Each filter row is summed on its own, so that an output waits from one input row to the next for one addition. */
  void add(int t, const Register* taps) {
#pragma GCC unroll 8
    for (int j = 0; t + j * kStride < kRows; ++j) {
      const Register* weight = weight_ + (t + j * kStride) * kColumns;
      Register sum = Vector::multiply(taps[0], weight[0]);
#pragma GCC unroll 8
      for (int s = 1; s < kColumns; ++s) sum = Vector::multiplyAdd(taps[s], weight[s], sum);
      open_[j] = Vector::add(open_[j], sum);
    }
  }

  /** Output row p - (kOpen - 1), which no further input row belongs to. */
  Register closed() const { return open_[kOpen - 1]; }

  /** To p + 1. */
  void advance() {
#pragma GCC unroll 8
    for (int j = kOpen - 1; j > 0; --j) open_[j] = open_[j - 1];
    open_[0] = bias_;
  }

 private:
  const Register bias_;
  Register weight_[kRows * kColumns];
  Register open_[kOpen];
};

/** kLanes output columns from q on, walking down the input: a row is loaded once for all the outputs it belongs to. */
template <class Vector, int kRows, int kColumns, int kStride>
void convolveStrip(const DepthwiseMaps& maps, int64_t q) {
  using Rows = OpenRows<Vector, kRows, kColumns, kStride>;
  // Copies, because the stores to the output might change the originals for all the compiler knows.
  const ConvProblem x = *maps.problem;
  const float* const input = maps.input;
  const int64_t column = q * kStride - x.padding.left;
  const typename Vector::template Taps<kColumns, kStride> columns(column, x.w, x.h * x.w);
  const StripFinish<Vector> finish(maps, q);
  Rows rows(maps.filter, maps.finish.bias);
  for (int64_t p = 0; p < x.p + Rows::kOpen - 1; ++p) {
#pragma GCC unroll 2
    for (int t = 0; t < kStride; ++t) {
      const int64_t h = p * kStride + t - x.padding.top;
      if (h < 0 || h >= x.h) continue;
      typename Vector::Register taps[kColumns];
      columns.load(input + (h * x.w + column), taps);
      rows.add(t, taps);
    }
    const int64_t closed = p - (Rows::kOpen - 1);
    if (closed >= 0) finish.store(closed * x.q + q, rows.closed());
    rows.advance();
  }
}

/** kLanes output columns of filters up to kMostStripColumns wide, with any dilation and any stride down the map. */
template <class Vector, int kStride>
void convolveAnyStrip(const DepthwiseMaps& maps, int64_t q) {
  const ConvProblem& x = *maps.problem;
  const int64_t column = q * kStride - x.padding.left;
  TapLanes<Vector, kStride> inside[kMostStripColumns];
  for (int64_t s = 0; s < x.s; ++s) inside[s].choose(column + s * x.dilation.w, x.w, x.h * x.w);
  const StripFinish<Vector> finish(maps, q);
  for (int64_t p = 0; p < x.p; ++p) {
    auto sum = Vector::broadcast(maps.finish.bias, 1);
    for (int64_t r = 0; r < x.r; ++r) {
      const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
      if (h < 0 || h >= x.h) continue;
      for (int64_t s = 0; s < x.s; ++s) {
        const float* at = maps.input + (h * x.w + column + s * x.dilation.w);
        auto tap = Vector::load(inside[s].lanes[0], at);
        if constexpr (kStride == 2) tap = Vector::even(tap, Vector::load(inside[s].lanes[1], at + Vector::kLanes));
        sum = Vector::multiplyAdd(tap, Vector::broadcast(maps.filter + r * x.s + s, x.r * x.s), sum);
      }
    }
    finish.store(p * x.q + q, sum);
  }
}

template <class Vector, int kStride>
void (*chooseStrip(const ConvProblem& x))(const DepthwiseMaps&, int64_t) {
  if (x.stride.h == kStride && x.dilation.h == 1 && x.dilation.w == 1) {
    if (x.r == 3 && x.s == 3) return convolveStrip<Vector, 3, 3, kStride>;
    if (x.r == 5 && x.s == 5) return convolveStrip<Vector, 5, 5, kStride>;
  }
  return convolveAnyStrip<Vector, kStride>;
}

/** DepthwiseKernel::convolve for what takesStrips says. */
template <class Vector>
void convolve(const DepthwiseMaps& maps) {
  const ConvProblem& x = *maps.problem;
  const auto convolveOne = x.stride.w == 1 ? chooseStrip<Vector, 1>(x) : chooseStrip<Vector, 2>(x);
  for (int64_t q = 0; q < x.q; q += Vector::kLanes) convolveOne(maps, q);
  if (!StripFinish<Vector>::takes(maps.finish.activation.kind)) {
    finishOutputs(maps.output, maps.count * x.p * x.q, 0.0f, nullptr, maps.finish.activation);
  }
}

}  // namespace warpconv::strips
