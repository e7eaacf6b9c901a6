#include <cstring>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {

void copy(const CopyStep& step, const void* input, void* output, const RunContext& context) {
  int64_t count = 1;
  for (const int64_t extent : step.extents) count *= extent;
  forEachRange(context, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t from = 0, to = 0, left = i;
      for (size_t axis = step.extents.size(); axis-- > 0; left /= step.extents[axis]) {
        from += left % step.extents[axis] * step.inputStrides[axis];
        to += left % step.extents[axis] * step.outputStrides[axis];
      }
      std::memcpy(static_cast<char*>(output) + to * step.bytes, static_cast<const char*>(input) + from * step.bytes,
                  static_cast<size_t>(step.bytes));
    }
  });
}

void fill(const FillStep& step, float* output) { std::fill_n(output, step.count, static_cast<float>(step.value)); }

}  // namespace warpconv::operators
