#include <limits>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

/** Which taps of a window of `taps` lie inside [0, extent): those from `begin` to `end`. */
struct Taps {
  int64_t begin;
  int64_t end;

  int64_t count() const { return end - begin; }
};

Taps tapsInside(int64_t first, int64_t dilation, int64_t taps, int64_t extent) {
  const int64_t begin = first >= 0 ? 0 : std::min(taps, (-first + dilation - 1) / dilation);
  const int64_t end = first >= extent ? 0 : std::min(taps, (extent - first + dilation - 1) / dilation);
  return {begin, std::max(begin, end)};
}

class Pool {
 public:
  explicit Pool(const PoolStep& step) : x_(step) {}

  void computeRow(const float* map, int64_t p, float* output) const {
    const int64_t h = p * x_.stride[0] - x_.padding[0];
    const Taps rows = tapsInside(h, x_.dilation[0], x_.r, x_.h);
    for (int64_t q = 0; q < x_.q; ++q) {
      const int64_t w = q * x_.stride[1] - x_.padding[1];
      const Taps columns = tapsInside(w, x_.dilation[1], x_.s, x_.w);
      if (x_.mode == PoolStep::Mode::maximum) {
        output[q] = maximumOf(map, h, w, rows, columns);
      } else {
        const int64_t divisor = divisorOf(h, w, rows, columns);
        output[q] =
            divisor == 0 ? 0.0f : static_cast<float>(sumOf(map, h, w, rows, columns) / static_cast<double>(divisor));
      }
    }
  }

 private:
  int64_t divisorOf(int64_t h, int64_t w, Taps rows, Taps columns) const {
    if (!x_.countPadding) return rows.count() * columns.count();
    return tapsInside(h + x_.padding[0], x_.dilation[0], x_.r, x_.padding[0] + x_.h + x_.endPadding[0]).count() *
           tapsInside(w + x_.padding[1], x_.dilation[1], x_.s, x_.padding[1] + x_.w + x_.endPadding[1]).count();
  }

  float maximumOf(const float* map, int64_t h, int64_t w, Taps rows, Taps columns) const {
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        const float value = map[(h + r * x_.dilation[0]) * x_.w + w + s * x_.dilation[1]];
        most = value > most || value != value ? value : most;
      }
    }
    return most;
  }

  double sumOf(const float* map, int64_t h, int64_t w, Taps rows, Taps columns) const {
    double sum = 0;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        sum += double{map[(h + r * x_.dilation[0]) * x_.w + w + s * x_.dilation[1]]};
      }
    }
    return sum;
  }

  const PoolStep& x_;
};

}  // namespace

void pool(const PoolStep& step, const float* input, float* output, const RunContext& context) {
  const Pool rows(step);
  forEachRange(context, step.planes * step.p, step.q * step.r * step.s, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      rows.computeRow(input + row / step.p * step.h * step.w, row % step.p, output + row * step.q);
    }
  });
}

}  // namespace warpconv::operators
