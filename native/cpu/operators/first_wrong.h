#pragma once

#include <atomic>
#include <cstdint>

namespace warpconv::operators {

/** The first of the indices that are out of range, as threads find them. */
class FirstWrong {
 public:
  void note(int64_t place) {
    int64_t first = place_.load(std::memory_order_relaxed);
    while (place < first && !place_.compare_exchange_weak(first, place, std::memory_order_relaxed)) {
    }
  }
  bool isFound() const { return place() != kNone; }
  int64_t place() const { return place_.load(std::memory_order_relaxed); }

 private:
  static constexpr int64_t kNone = INT64_MAX;
  std::atomic<int64_t> place_{kNone};
};

}  // namespace warpconv::operators
