#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace warpconv::cuda {

/** How long work of one kind takes, by what it took lately: nothing before the first. Any thread may call it. */
class ExpectedTime {
 public:
  using Duration = std::chrono::steady_clock::duration;

  Duration get() const { return Duration(time_.load(std::memory_order_relaxed)); }

  /**
   * Notes what it took. Who slept past the end does not know when that was, and what they saw would make the next one
   * sleep as long: so the time becomes shorter, by more each time that this happens again.
   */
  void note(Duration taken, bool hasOverslept) {
    if (hasOverslept) return shorten();
    step_.store(kLeastStep.count(), std::memory_order_relaxed);
    const Duration before = get();
    const bool isShorter = before == Duration::zero() || taken < before;
    set(isShorter ? taken : before + (taken - before) / 2);
  }

 private:
  static constexpr Duration kLeastStep = std::chrono::microseconds(50);

  void set(Duration time) { time_.store(time.count(), std::memory_order_relaxed); }
  void shorten() {
    const Duration step(step_.load(std::memory_order_relaxed));
    step_.store(2 * step.count(), std::memory_order_relaxed);
    set(std::max(get() - step, Duration::zero()));
  }

  std::atomic<Duration::rep> time_{0}, step_{kLeastStep.count()};
};

}  // namespace warpconv::cuda
