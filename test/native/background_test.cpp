#include "cuda/host/background.h"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

using warpconv::cuda::Background;

namespace {

/** What a task waits at until it is opened. */
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    isOpen_ = true;
    changed_.notify_all();
  }
  /** Says that it is there, too. */
  void pass() {
    std::unique_lock lock(mutex_);
    isReached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return isOpen_; });
  }
  void awaitReached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return isReached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isOpen_ = false, isReached_ = false;
};

}  // namespace

TEST_CASE("work in the background is done one after the other, in order, whatever it throws") {
  Background background;
  std::vector<int> done;
  const int owner = 0;
  for (int i = 0; i < 100; ++i) {
    background.add(&owner, [&done, i] {
      done.push_back(i);
      if (i % 3 == 0) throw std::runtime_error("a task that fails");
    });
  }
  background.drain();
  REQUIRE(done.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(done[static_cast<size_t>(i)] == i);
}

TEST_CASE("what is forgotten in the background does not begin, and what has begun is waited for") {
  Background background;
  Gate gate;
  const int first = 1, second = 2;
  std::atomic<int> ended{0};
  background.add(&first, [&] {
    gate.pass();
    ++ended;
  });
  gate.awaitReached();
  for (int i = 0; i < 10; ++i) background.add(&second, [&] { ended += 1000; });
  // Not of the task that runs.
  background.forget(&second);
  CHECK(ended == 0);
  std::thread opener([&gate] { gate.open(); });
  background.forget(&first);
  CHECK(ended == 1);
  opener.join();
  background.drain();
  CHECK(ended == 1);
}

TEST_CASE("owners come and go while others have work in the background, and it ends with tasks left") {
  std::atomic<int> ended{0};
  {
    Background background;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 200; ++round) {
          // Freed at once, so that a task which came later would be found out.
          const auto owner = std::make_unique<int>(round);
          int* const value = owner.get();
          background.add(value, [&ended, value] { ended += *value >= 0; });
          if (round % 2 == 0) background.add(value, [value] { *value = 0; });
          background.forget(value);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const int owner = 0;
    for (int i = 0; i < 100; ++i) background.add(&owner, [] {});
  }
  CHECK(ended <= 800);
}
