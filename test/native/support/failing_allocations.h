#pragma once

#include <cstdint>

namespace warpconv {

/**
 * While one lives, the `nth` allocation from now on fails, counted from 1 over all threads, the test's own included,
 * unless that is in Spared. Replaces the global operator new of the tests' program.
 */
class FailingAllocation {
 public:
  explicit FailingAllocation(int64_t nth);
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  ~FailingAllocation();

  /** Whether there were as many. */
  bool happened() const;

  /** While one lives, this thread's allocations neither fail nor count: they are the test's own. */
  class Spared {
   public:
    Spared();
    Spared(const Spared&) = delete;
    Spared& operator=(const Spared&) = delete;
    ~Spared();
  };
};

}  // namespace warpconv
