#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace warpconv::cuda {

/** A thread for work that nobody waits for, one task after the other. It starts with the first. */
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  /** Tasks that have not begun are dropped. */
  ~Background();

  /** Dropped where there is no memory for it, or no thread. The owner calls `forget` before it goes. */
  void add(const void* owner, std::function<void()> work) noexcept;
  /** Drops the owner's tasks, and waits for the one that runs. Not to be called by a task. */
  void forget(const void* owner);
  /** Waits until there is nothing left to do. */
  void drain();

 private:
  struct Task {
    const void* owner;
    std::function<void()> work;
  };
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  /** Of the task that runs, or null */
  const void* running_ = nullptr;
  bool isEnding_ = false;
  std::thread thread_;
};

}  // namespace warpconv::cuda
