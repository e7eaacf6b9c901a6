#pragma once

#include <atomic>

namespace warpconv {

/** Asks a running call to stop. Kernels look at it between tiles and return `aborted` with the output unfinished. */
class Cancellation {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool isRequested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};
};

}  // namespace warpconv
