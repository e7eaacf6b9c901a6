#include "cpu/sconv/window_views.h"

#include "cpu/algorithm/range.h"
#include "divide.h"

namespace warpconv::sconv {
namespace {

/** The filter rows that the windows of output row `p` have inside the input. Divides only where some are not. */
Range filterRowsInside(const ConvProblem& x, int64_t p) {
  const int64_t h = p * x.stride.h - x.padding.top;
  const auto rowsBefore = [&](int64_t end) {
    return h + (x.r - 1) * x.dilation.h < end ? x.r : (h < end ? ceilDivide(end - h, x.dilation.h) : 0);
  };
  return {h >= 0 ? 0 : rowsBefore(0), rowsBefore(x.h)};
}

/** The input column of the first element of the windows of output column `q` */
int64_t inputColumn(const ConvProblem& x, int64_t q) { return q * x.stride.w - x.padding.left; }

}  // namespace

WindowView flatView(const float* data, int64_t elements, int64_t stride, int64_t count) {
  return {.first = data,
          .second = data + count / 2,
          .channels = 1,
          .rows = 1,
          .taps = elements,
          .channelStride = 0,
          .rowStride = 0,
          .tapStride = stride,
          .step = 1,
          .filterElements = elements,
          .padded = {}};
}

uint16_t columnsInside(const ConvProblem& x, const WindowRows& windows, int64_t s) {
  uint32_t row = 0;
  for (int64_t i = 0; i < windows.columns; ++i) {
    const int64_t column = inputColumn(x, windows.q + i) + s * x.dilation.w;
    if (column >= 0 && column < x.w) row |= 1u << i;
  }
  return static_cast<uint16_t>(windows.rows > 1 ? row << windows.columns | row : row);
}

WindowView viewInPlace(const ConvProblem& x, const float* maps, int64_t channels, const WindowRows& windows,
                       const uint16_t* inside) {
  // The rows of a window further down begin and end no later in the filter.
  const Range first = filterRowsInside(x, windows.p);
  const Range second = windows.rows > 1 ? filterRowsInside(x, windows.p + 1) : first;
  const Range rows{second.begin, first.end};
  const int64_t h = windows.p * x.stride.h - x.padding.top + rows.begin * x.dilation.h;
  const int64_t w = inputColumn(x, windows.q);
  const bool padded = w < 0 || inputColumn(x, windows.q + windows.columns - 1) + (x.s - 1) * x.dilation.w >= x.w ||
                      first.begin > rows.begin || second.end < rows.end;
  const float* data = maps + h * x.w + w;
  return {.first = data,
          .second = data + (windows.rows > 1 ? x.stride.h * x.w : windows.columns / 2 * x.stride.w),
          .channels = channels,
          .rows = rows.size(),
          .taps = x.s,
          .channelStride = x.h * x.w,
          .rowStride = x.dilation.h * x.w,
          .tapStride = x.dilation.w,
          .step = x.stride.w,
          .firstElement = rows.begin * x.s,
          .filterElements = x.r * x.s,
          .padded = {padded ? inside : nullptr, first.begin - rows.begin, second.end - rows.begin}};
}

}  // namespace warpconv::sconv
