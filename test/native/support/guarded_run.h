#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv::test {

/** What a step made of one output. */
template <typename T>
struct GuardedRuns {
  std::vector<T> onOneThread, onSeveral;
};

/** What `work(output, context)` makes of so many elements, with guards around the output that nothing may write to. */
template <typename T, typename Work>
GuardedRuns<T> runGuarded(int64_t count, Isa isa, const Work& work) {
  constexpr size_t kGuard = 64;
  static Executor executor(3);
  const auto runOn = [&](Executor* threads) {
    std::vector<T> guarded(static_cast<size_t>(count) + 2 * kGuard);
    std::memset(static_cast<void*>(guarded.data()), 0xA5, guarded.size() * sizeof(T));
    const std::vector<T> untouched(guarded.begin(), guarded.begin() + kGuard);
    work(guarded.data() + kGuard, RunContext{.executor = threads, .cancellation = nullptr, .isa = isa});
    REQUIRE(std::memcmp(guarded.data(), untouched.data(), kGuard * sizeof(T)) == 0);
    REQUIRE(std::memcmp(guarded.data() + kGuard + count, untouched.data(), kGuard * sizeof(T)) == 0);
    return std::vector<T>(guarded.begin() + kGuard, guarded.end() - kGuard);
  };
  return {runOn(nullptr), runOn(&executor)};
}

}  // namespace warpconv::test
