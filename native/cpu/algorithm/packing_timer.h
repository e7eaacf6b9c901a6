#pragma once

#if defined(WARPCONV_PACKING_TIMER)
#include <chrono>
#endif

namespace warpconv {

#if defined(WARPCONV_PACKING_TIMER)

/** Adds its life to the time that this thread has spent on rearranging inputs. For the bench's build (bench/native). */
class PackingTimer {
 public:
  PackingTimer() : begin_(Clock::now()) {}
  ~PackingTimer() { milliseconds += std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
  PackingTimer(const PackingTimer&) = delete;
  PackingTimer& operator=(const PackingTimer&) = delete;

  static inline thread_local double milliseconds = 0;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
};

#else

/** Nothing, except in the bench's build. */
struct PackingTimer {};

#endif

}  // namespace warpconv
