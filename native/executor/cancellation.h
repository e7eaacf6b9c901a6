#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace warpconv {

/** Asks a running call to stop. Kernels look at it between tiles and return `aborted` with the output unfinished. */
class Cancellation {
 public:
  using Clock = std::chrono::steady_clock;

  Cancellation() = default;
  /** One that is requested from `deadline` on, too, and when `parent` is, unless that is null. */
  Cancellation(const Cancellation* parent, Clock::time_point deadline) : parent_(parent), deadline_(deadline) {}

  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool isRequested() const {
    if (requested_.load(std::memory_order_relaxed)) return true;
    return deadline_ && (Clock::now() >= *deadline_ || (parent_ != nullptr && parent_->isRequested()));
  }

 private:
  std::atomic<bool> requested_{false};
  const Cancellation* const parent_ = nullptr;
  const std::optional<Clock::time_point> deadline_;
};

}  // namespace warpconv
