#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/vector_loops/vector_loops.h"
#include "divide.h"
#include "memory/aligned_buffer.h"

namespace warpconv::operators {
namespace {

/** Which of a window's taps along one axis lie inside [0, extent): those from `begin` to `end`. */
struct Taps {
  int64_t begin;
  int64_t end;

  int64_t count() const { return end - begin; }
};

Taps tapsInside(int64_t first, int64_t dilation, int64_t taps, int64_t extent) {
  // Of most windows; without divisions.
  if (first >= 0 && first + (taps - 1) * dilation < extent) return {0, taps};
  const int64_t begin = first >= 0 ? 0 : std::min(taps, ceilDivide(-first, dilation));
  const int64_t end = first >= extent ? 0 : std::min(taps, ceilDivide(extent - first, dilation));
  return {begin, std::max(begin, end)};
}

bool isPowerOfTwo(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5f;
}

/**
 * A window's maximum, or sum, is that of its rows' ones, so output rows are done in two steps: down the columns of the
 * map into rows that have neutral elements for padding on either side, then along those. Some rows at a time, because a
 * load of what several stores have written waits until they have reached the cache.
 */
class Pool {
 public:
  Pool(const PoolStep& step, const VectorLoops& loops)
      : x_(step),
        isMaximum_(step.mode == PoolStep::Mode::maximum),
        loops_(isMaximum_ ? loops.maximumWindows : loops.sumWindows),
        width_((step.q - 1) * step.stride[1] + (step.s - 1) * step.dilation[1] + 1),
        columns_(std::clamp<int64_t>(width_ - step.padding[1], 0, step.w)) {
    for (int64_t q = 0; q < step.q && !isMaximum_; ++q) divisors_.push_back(divisorOf(q));
    const auto differs = [&](float divisor) { return divisor != divisors_.front(); };
    const bool isCommon = std::none_of(divisors_.begin(), divisors_.end(), differs);
    if (isCommon && !divisors_.empty()) commonDivisor_ = divisors_.front();
  }

  /**
   * Whether rows with their padding are so much wider than what is read of them that they are not worth their memory:
   * dilation and padding alone can make them 2^33 elements wide.
   */
  bool isSparse() const { return width_ > kMostWidth && width_ / 4 > x_.w + x_.q; }

  int64_t elementsOfRow() const {
    const int64_t rows = std::min(x_.r, x_.h);
    const int64_t columns = std::min(x_.s, isSparse() ? x_.w : width_);
    return isSparse() ? x_.q * rows * columns : x_.q * columns + columns_ * rows;
  }

  AlignedBuffer makeScratch() const {
    // One more, since loops may read as much beyond the last window.
    AlignedBuffer scratch(kRowsAtOnce * width_ + 1);
    std::fill_n(scratch.data(), scratch.elements(), neutral());
    return scratch;
  }

  /** As computeRows, window by window and without scratch memory. */
  void computeWindows(const float* input, int64_t begin, int64_t end, float* output) const {
    for (int64_t row = begin; row < end; ++row) {
      const float* map = input + row / x_.p * x_.h * x_.w;
      for (int64_t q = 0; q < x_.q; ++q) output[row * x_.q + q] = foldWindow(map, row % x_.p, q);
      if (!isMaximum_) divide(row % x_.p, output + row * x_.q);
    }
  }

  /** Rows from `begin` to `end` of all maps' output rows, one after the other. */
  void computeRows(const float* input, int64_t begin, int64_t end, float* output, float* scratch) const {
    const WindowRow window{x_.s, x_.dilation[1], x_.stride[1]};
    for (int64_t plane = begin / x_.p, p = begin % x_.p; begin < end;) {
      // Of one map, so that a row is found without a division
      const int64_t count = std::min({kRowsAtOnce, end - begin, x_.p - p});
      const float* map = input + plane * x_.h * x_.w;
      for (int64_t i = 0; i < count; ++i) combineRows(map, p + i, scratch + i * width_ + x_.padding[1]);
      for (int64_t i = 0; i < count; ++i) {
        float* row = output + (begin + i) * x_.q;
        loops_.windows(scratch + i * width_, window, x_.q, row);
        if (!isMaximum_) divide(p + i, row);
      }
      begin += count, p += count;
      if (p == x_.p) ++plane, p = 0;
    }
  }

 private:
  static constexpr int64_t kRowsAtOnce = 8;
  static constexpr int64_t kMostWidth = 1 << 16;

  float neutral() const { return isMaximum_ ? -std::numeric_limits<float>::infinity() : 0.0f; }

  Taps rowsOf(int64_t p) const { return tapsInside(p * x_.stride[0] - x_.padding[0], x_.dilation[0], x_.r, x_.h); }

  float foldWindow(const float* map, int64_t p, int64_t q) const {
    const int64_t top = p * x_.stride[0] - x_.padding[0];
    const int64_t left = q * x_.stride[1] - x_.padding[1];
    const Taps rows = rowsOf(p);
    const Taps columns = tapsInside(left, x_.dilation[1], x_.s, x_.w);
    float folded = neutral();
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* row = map + (top + r * x_.dilation[0]) * x_.w;
      for (int64_t s = columns.begin; s < columns.end; ++s) folded = fold(folded, row[left + s * x_.dilation[1]]);
    }
    return folded;
  }

  /** NaN beats every number. */
  float fold(float folded, float next) const {
    if (!isMaximum_) return folded + next;
    return next > folded || next != next ? next : folded;
  }

  void combineRows(const float* map, int64_t p, float* to) const {
    const Taps taps = rowsOf(p);
    if (taps.count() == 0) return static_cast<void>(std::fill_n(to, columns_, neutral()));
    const int64_t first = p * x_.stride[0] - x_.padding[0] + taps.begin * x_.dilation[0];
    loops_.rows({map + first * x_.w, x_.dilation[0] * x_.w, taps.count()}, columns_, to);
  }

  float divisorOf(int64_t q) const {
    const int64_t w = q * x_.stride[1] - x_.padding[1];
    const Taps taps = x_.countPadding
                          ? tapsInside(w + x_.padding[1], x_.dilation[1], x_.s, x_.padding[1] + x_.w + x_.endPadding[1])
                          : tapsInside(w, x_.dilation[1], x_.s, x_.w);
    // The sum of no elements is 0, and so is its average.
    return static_cast<float>(std::max<int64_t>(1, taps.count()));
  }

  void divide(int64_t p, float* output) const {
    const int64_t padded =
        tapsInside(p * x_.stride[0], x_.dilation[0], x_.r, x_.padding[0] + x_.h + x_.endPadding[0]).count();
    const auto rows = static_cast<float>(std::max<int64_t>(1, x_.countPadding ? padded : rowsOf(p).count()));
    if (const float common = rows * commonDivisor_; isPowerOfTwo(common)) {
      // As exact as the division, in a fraction of its time
      for (int64_t q = 0; q < x_.q; ++q) output[q] *= 1 / common;
      return;
    }
    for (int64_t q = 0; q < x_.q; ++q) output[q] /= rows * divisors_[static_cast<size_t>(q)];
  }

  const PoolStep& x_;
  const bool isMaximum_;
  const WindowLoops& loops_;
  /** Of a row with its padding */
  const int64_t width_;
  /** Of the map that windows reach */
  const int64_t columns_;
  /** For averages: of each output column, by what a row of its window counts */
  std::vector<float> divisors_;
  /** Of all columns; 0 where they differ, and for maxima */
  float commonDivisor_ = 0;
};

}  // namespace

void pool(const PoolStep& step, const float* input, float* output, const RunContext& context) {
  const Pool pool(step, vectorLoops(context.isa));
  forEachRange(context, step.planes * step.p, pool.elementsOfRow(), [&](int64_t begin, int64_t end) {
    if (pool.isSparse()) return pool.computeWindows(input, begin, end, output);
    AlignedBuffer scratch = pool.makeScratch();
    pool.computeRows(input, begin, end, output, scratch.data());
  });
}

}  // namespace warpconv::operators
