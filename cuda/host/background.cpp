#include "cuda/host/background.h"

#include <exception>
#include <utility>

namespace warpconv::cuda {

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Background::add(const void* owner, std::function<void()> work) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    tasks_.push_back({owner, std::move(work)});
  } catch (const std::exception&) {
    return;
  }
  changed_.notify_all();
}

void Background::forget(const void* owner) {
  std::unique_lock lock(mutex_);
  std::erase_if(tasks_, [owner](const Task& task) { return task.owner == owner; });
  changed_.wait(lock, [&] { return running_ != owner; });
}

void Background::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tasks_.empty() && running_ == nullptr; });
}

void Background::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return isEnding_ || !tasks_.empty(); });
    if (isEnding_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = task.owner;
    lock.unlock();
    try {
      task.work();
    } catch (const std::exception&) {
      // Nobody waits for it, and it may be asked for again.
    }
    task = {};
    lock.lock();
    running_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace warpconv::cuda
