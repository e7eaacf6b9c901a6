#pragma once

#include <cstdint>

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/** Which threads help with one call, by its work in multiply-adds of the micro-kernel. */
class Helpers {
 public:
  explicit Helpers(double multiplyAdds)
      : alone_(multiplyAdds < kLeastParallelMultiplyAdds),
        sleepers_(multiplyAdds < kLeastWakingMultiplyAdds ? Executor::Sleepers::leave : Executor::Sleepers::wake) {}

  unsigned threads(const RunContext& context) const { return alone_ ? 1 : context.threads(); }

  void parallelFor(const RunContext& context, int64_t tasks, TaskBody body) const {
    RunContext{alone_ ? nullptr : context.executor, context.cancellation}.parallelFor(tasks, body, sleepers_);
  }

  /**
   * Parts for each thread, so that one that starts late holds up little. Parts cost next to nothing: one Zen 4 core
   * takes as long for the 393 layers of bench/layers/sconv-393.json in 1 part as in 2, 4, 8 or 16 (657 ms, 0.7 % more
   * at most).
   */
  static constexpr int64_t kPartsPerThread = 8;

 private:
  /**
   * Below this a second thread costs more than it brings, even one that is awake. Two threads of Zen 4 over one on
   * layers of bench/layers/sconv-393.json with 1e6 to 4e6 multiply-adds, 20 to 90 microseconds: 1.71 times as fast; on
   * four of MobileNetV3 with 0.4e6 to 0.9e6, 5 to 19 microseconds: 1.7.
   */
  static constexpr double kLeastParallelMultiplyAdds = 2.5e5;
  /**
   * Below this only threads that are awake help. Waking one costs the caller 60 microseconds on a virtual machine of
   * two Zen 4 cores: after a pause the layers above take 83 to 161 instead of 23 to 95. Longer calls in a row wake it
   * once.
   */
  static constexpr double kLeastWakingMultiplyAdds = 4e6;

  bool alone_;
  Executor::Sleepers sleepers_;
};

}  // namespace warpconv
