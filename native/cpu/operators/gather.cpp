#include <algorithm>
#include <cstring>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/first_wrong.h"
#include "cpu/operators/ranges.h"
#include "program/indices.h"

namespace warpconv::operators {
namespace {

/**
 * The position that an index means, or -1 where it is out of range. Each is read once: the caller may write to a feed
 * while the run reads it, and what was checked must be what is used.
 */
int64_t positionOf(const int64_t* index, int64_t axis) {
  const int64_t given = *static_cast<const volatile int64_t*>(index);
  if (given < -axis || given >= axis) return -1;
  return given < 0 ? given + axis : given;
}

/** Places `begin` to `end` of all rows, one row after the other, of pieces of so many bytes, or of as many as the
 * step's. */
template <int64_t kBytes>
void gatherRange(const GatherStep& step, const int64_t* indices, const char* input, char* output, int64_t begin,
                 int64_t end, FirstWrong& wrong) {
  const int64_t bytes = kBytes != 0 ? kBytes : step.inner * step.bytes;
  while (begin < end) {
    const int64_t row = begin / step.count, first = begin - row * step.count;
    const int64_t last = std::min(step.count, first + end - begin);
    const char* const from = input + row * step.axis * bytes;
    char* const to = output + row * step.count * bytes;
    for (int64_t place = first; place < last; ++place) {
      const int64_t position = positionOf(indices + place, step.axis);
      if (position < 0) {
        wrong.note(place);
      } else {
        std::memcpy(to + place * bytes, from + position * bytes, static_cast<size_t>(bytes));
      }
    }
    begin += last - first;
  }
}

/** Copies of a size that the compiler knows are single instructions. */
auto rangeFor(const GatherStep& step) {
  switch (step.inner * step.bytes) {
    case 1: return gatherRange<1>;
    case 2: return gatherRange<2>;
    case 4: return gatherRange<4>;
    case 8: return gatherRange<8>;
    default: return gatherRange<0>;
  }
}

}  // namespace

Status gather(const GatherStep& step, const int64_t* indices, const void* input, void* output,
              const RunContext& context) {
  FirstWrong wrong;
  const auto range = rangeFor(step);
  const auto* const from = static_cast<const char*>(input);
  auto* const to = static_cast<char*>(output);
  forEachRange(context, step.outer * step.count, step.inner,
               [&](int64_t begin, int64_t end) { range(step, indices, from, to, begin, end, wrong); });
  if (wrong.isFound()) return wrongIndex(wrong.place(), indices[wrong.place()], step.axis);
  return context.isCancelled() ? stoppedWhileRunning() : Status{};
}

}  // namespace warpconv::operators
