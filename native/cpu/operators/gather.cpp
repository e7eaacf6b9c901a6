#include <cstring>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"
#include "program/indices.h"

namespace warpconv::operators {
Status gather(const GatherStep& step, const int64_t* indices, const void* input, void* output,
              const RunContext& context) {
  Status status = checkIndices(step, indices);
  if (!status.isOk()) return status;
  const int64_t bytes = step.inner * step.bytes;
  forEachRange(context, step.outer * step.count, step.inner, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = indices[i % step.count];
      const int64_t from = i / step.count * step.axis + (index < 0 ? index + step.axis : index);
      std::memcpy(static_cast<char*>(output) + i * bytes, static_cast<const char*>(input) + from * bytes,
                  static_cast<size_t>(bytes));
    }
  });
  return context.isCancelled() ? stoppedWhileRunning() : Status{};
}

}  // namespace warpconv::operators
