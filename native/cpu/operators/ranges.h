#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv::operators {

/**
 * What one look at the cancellation covers, and what a second thread must take over: 2 microseconds of relu and 14 of
 * gelu on one Zen 4 core.
 */
constexpr int64_t kGrainElements = 16'384;
/** Below this, 30 to 240 microseconds, only threads that are awake help: see kLeastWakingMultiplyAdds of Helpers. */
constexpr int64_t kLeastWakingElements = 262'144;
/** Parts for each thread, so that one that starts late holds up little. */
constexpr int64_t kPartsPerThread = 8;

/**
 * Calls body(begin, end) for ranges that make up [0, count), on the context's threads, until it is cancelled. A unit
 * stands for about `elements` elements of memory-bound work. The ranges are the same for any number of threads.
 */
template <typename Body>
void forEachRange(const RunContext& context, int64_t count, int64_t elements, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, elements));
  const auto run = [&](int64_t begin, int64_t end) {
    for (; begin < end && !context.isCancelled(); begin += grain) body(begin, std::min(end, begin + grain));
  };
  const int64_t grains = (count + grain - 1) / grain;
  if (grains <= 1 || context.threads() == 1) return run(0, count);
  const int64_t tasks = std::min<int64_t>(grains, kPartsPerThread * context.threads());
  const bool wakes = static_cast<double>(count) * static_cast<double>(elements) >= kLeastWakingElements;
  context.parallelFor(
      tasks,
      [&](int64_t task) { run(grains * task / tasks * grain, std::min(count, grains * (task + 1) / tasks * grain)); },
      wakes ? Executor::Sleepers::wake : Executor::Sleepers::leave);
}

}  // namespace warpconv::operators
