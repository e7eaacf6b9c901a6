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

}  // namespace

Status gather(const GatherStep& step, const int64_t* indices, const void* input, void* output,
              const RunContext& context) {
  const int64_t bytes = step.inner * step.bytes;
  FirstWrong wrong;
  forEachRange(context, step.outer * step.count, step.inner, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t place = i % step.count;
      const int64_t position = positionOf(indices + place, step.axis);
      if (position < 0) {
        wrong.note(place);
        continue;
      }
      const int64_t from = i / step.count * step.axis + position;
      std::memcpy(static_cast<char*>(output) + i * bytes, static_cast<const char*>(input) + from * bytes,
                  static_cast<size_t>(bytes));
    }
  });
  if (wrong.isFound()) return wrongIndex(wrong.place(), indices[wrong.place()], step.axis);
  return context.isCancelled() ? stoppedWhileRunning() : Status{};
}

}  // namespace warpconv::operators
