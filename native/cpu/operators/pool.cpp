#include <limits>
#include <vector>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/vector_loops/vector_loops.h"
#include "memory/aligned_buffer.h"

namespace warpconv::operators {
namespace {

constexpr int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

/**
 * A window's maximum, or sum, is that of its rows' ones, so each band of output rows is done in two steps: down the
 * columns of the map into rows that have neutral elements for padding on either side, then along those.
 */
class Pool {
 public:
  Pool(const PoolStep& step, const VectorLoops& loops)
      : x_(step),
        isMaximum_(step.mode == PoolStep::Mode::maximum),
        loops_(isMaximum_ ? loops.maximumWindows : loops.sumWindows),
        width_(ceilDivide((step.q - 1) * step.stride[1] + (step.s - 1) * step.dilation[1] + 1, step.stride[1]) *
               step.stride[1]),
        columns_(std::clamp<int64_t>(width_ - step.padding[1], 0, step.w)),
        bandRows_(std::clamp<int64_t>(kBandFloats / width_, 1, step.p)) {
    for (int64_t q = 0; q < step.q && !isMaximum_; ++q) divisors_.push_back(divisorOf(q));
  }

  int64_t bands() const { return ceilDivide(x_.p, bandRows_); }
  int64_t elementsOfBand() const { return bandRows_ * (x_.q * x_.s + columns_ * x_.r); }

  AlignedBuffer makeScratch() const {
    // The last windows of a band reach as far beyond it as a window is wide.
    AlignedBuffer scratch(2 * bandRows_ * width_ + (x_.s - 1) * x_.dilation[1]);
    std::fill_n(scratch.data(), scratch.elements(), neutral());
    return scratch;
  }

  /** `pointers` has room for the rows of a window. */
  void computeBand(const float* map, int64_t band, float* output, float* scratch,
                   std::vector<const float*>& pointers) const {
    const int64_t begin = band * bandRows_;
    const int64_t end = std::min(x_.p, begin + bandRows_);
    float* results = scratch;
    float* rows = scratch + bandRows_ * width_;
    for (int64_t p = begin; p < end; ++p) combineRows(map, p, pointers, rows + (p - begin) * width_ + x_.padding[1]);
    const int64_t resultWidth = width_ / x_.stride[1];
    loops_.windows(rows, {x_.s, x_.dilation[1], x_.stride[1]}, (end - begin) * resultWidth, results);
    for (int64_t p = begin; p < end; ++p) finishRow(results + (p - begin) * resultWidth, p, output + p * x_.q);
  }

 private:
  /** Rows that stay in the L1 cache between the steps */
  static constexpr int64_t kBandFloats = 2048;
  float neutral() const { return isMaximum_ ? -std::numeric_limits<float>::infinity() : 0.0f; }

  Taps rowsOf(int64_t p) const { return tapsInside(p * x_.stride[0] - x_.padding[0], x_.dilation[0], x_.r, x_.h); }

  void combineRows(const float* map, int64_t p, std::vector<const float*>& pointers, float* to) const {
    const Taps taps = rowsOf(p);
    if (taps.count() == 0) return static_cast<void>(std::fill_n(to, columns_, neutral()));
    const int64_t h = p * x_.stride[0] - x_.padding[0];
    pointers.clear();
    for (int64_t r = taps.begin; r < taps.end; ++r) pointers.push_back(map + (h + r * x_.dilation[0]) * x_.w);
    loops_.rows(pointers.data(), taps.count(), columns_, to);
  }

  float divisorOf(int64_t q) const {
    const int64_t w = q * x_.stride[1] - x_.padding[1];
    const Taps taps = x_.countPadding
                          ? tapsInside(w + x_.padding[1], x_.dilation[1], x_.s, x_.padding[1] + x_.w + x_.endPadding[1])
                          : tapsInside(w, x_.dilation[1], x_.s, x_.w);
    // The sum of no elements is 0, and so is its average.
    return static_cast<float>(std::max<int64_t>(1, taps.count()));
  }

  void finishRow(const float* results, int64_t p, float* output) const {
    if (isMaximum_) return static_cast<void>(std::copy_n(results, x_.q, output));
    const int64_t padded =
        tapsInside(p * x_.stride[0], x_.dilation[0], x_.r, x_.padding[0] + x_.h + x_.endPadding[0]).count();
    const auto rows = static_cast<float>(std::max<int64_t>(1, x_.countPadding ? padded : rowsOf(p).count()));
    for (int64_t q = 0; q < x_.q; ++q) output[q] = results[q] / (rows * divisors_[static_cast<size_t>(q)]);
  }

  const PoolStep& x_;
  const bool isMaximum_;
  const WindowLoops& loops_;
  /** Of a row with its padding, in whole strides */
  const int64_t width_;
  /** Of the map that windows reach */
  const int64_t columns_;
  const int64_t bandRows_;
  /** For averages: of each output column, by what a row of its window counts */
  std::vector<float> divisors_;
};

}  // namespace

void pool(const PoolStep& step, const float* input, float* output, const RunContext& context) {
  const Pool pool(step, vectorLoops(context.isa));
  forEachRange(context, step.planes * pool.bands(), pool.elementsOfBand(), [&](int64_t begin, int64_t end) {
    AlignedBuffer scratch = pool.makeScratch();
    std::vector<const float*> pointers;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t plane = i / pool.bands();
      pool.computeBand(input + plane * step.h * step.w, i % pool.bands(), output + plane * step.p * step.q,
                       scratch.data(), pointers);
    }
  });
}

}  // namespace warpconv::operators
