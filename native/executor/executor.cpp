#include "executor/executor.h"

#include <algorithm>
#include <new>
#include <system_error>

namespace warpconv {
namespace {

Status abortedBeforeStart() { return {StatusCode::aborted, "the call was cancelled before it started"}; }

}  // namespace

Status callToStatus(const std::function<Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {StatusCode::outOfMemory,
            "not enough memory for packed weights or workspace; free tensors and plans, or "
            "lower options.workspaceLimit"};
  } catch (const std::exception& error) {
    return {StatusCode::internal, error.what()};
  }
}

std::shared_ptr<Executor> Executor::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Executor> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Executor> executor = current.lock();
  if (!executor) {
    // One processor is left to the event loop.
    executor = std::make_shared<Executor>(std::max(2u, std::thread::hardware_concurrency()) - 1);
    current = executor;
  }
  return executor;
}

Executor::~Executor() {
  std::deque<std::shared_ptr<Call>> abandoned;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    abandoned.swap(queue_);
  }
  changed_.notify_all();
  for (const auto& call : abandoned) call->done_(abortedBeforeStart());
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<Executor::Call> Executor::submit(Work work, Done done) {
  auto call = std::make_shared<Call>(std::move(work), std::move(done));
  Status started;
  {
    const std::lock_guard lock(mutex_);
    started = callToStatus([this] {
      startThreads();
      return Status{};
    });
    if (started.isOk()) queue_.push_back(call);
  }
  if (started.isOk()) {
    changed_.notify_one();
  } else {
    call->done_(std::move(started));
  }
  return call;
}

void Executor::startThreads() {
  while (threads_.size() < wantedThreads_) {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // Fewer threads than wanted still serve every call.
      if (threads_.empty()) throw;
      return;
    }
  }
}

void Executor::cancel(const std::shared_ptr<Call>& call) {
  call->cancellation_.request();
  {
    const std::lock_guard lock(mutex_);
    const auto place = std::find(queue_.begin(), queue_.end(), call);
    if (place == queue_.end()) return;
    queue_.erase(place);
  }
  call->done_(abortedBeforeStart());
}

void Executor::serve() {
  while (true) {
    std::shared_ptr<Call> call;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      call = std::move(queue_.front());
      queue_.pop_front();
    }
    Status status = callToStatus([&call] { return call->work_(call->cancellation_); });
    // What the work captured is let go before anybody hears that it has ended.
    call->work_ = nullptr;
    call->done_(std::move(status));
  }
}

}  // namespace warpconv
