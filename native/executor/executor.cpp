#include "executor/executor.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>

namespace warpconv {
namespace {

/**
 * How long a thread that has just finished looks for more before it sleeps. bench/overhead.ts on a virtual machine of
 * two cores: a run() after another settles in 70 to 84 microseconds without, in 7 to 13 with 50, and no sooner with
 * 200.
 */
constexpr std::chrono::microseconds kWatch{50};

/** Tells the processor that this thread only looks, so that another on the same core goes ahead. */
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/** Waits awake until `happened()`, but no longer than kWatch. */
template <typename Happened>
void watchFor(Happened happened) {
  // Reading the clock takes as long as several looks.
  constexpr int kLooksPerReading = 16;
  const auto until = std::chrono::steady_clock::now() + kWatch;
  do {
    for (int look = 0; look < kLooksPerReading; ++look) {
      if (happened()) return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < until);
}

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

/** Tasks that are handed out one by one to whoever comes. */
struct Executor::Loop {
  Loop(int64_t taskCount, unsigned helpers, const std::function<void(int64_t)>& taskBody)
      : tasks(taskCount), body(taskBody), seats(helpers) {}

  const int64_t tasks;
  /** Alive until parallelFor returns, which is after the last task has ended */
  const std::function<void(int64_t)>& body;
  std::atomic<int64_t> next{0};
  /** How many more threads may join; guarded by the executor's mutex */
  unsigned seats;

  std::atomic<int64_t> endedTasks{0};
  std::mutex mutex;
  std::condition_variable ended;
  /** Guarded by `mutex` */
  std::exception_ptr thrown;

  bool hasEnded() const { return endedTasks.load(std::memory_order_acquire) == tasks; }
};

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
  bool served = false;
  {
    const std::lock_guard lock(mutex_);
    startThreads();
    served = !threads_.empty();
    if (served) queue_.push_back(call);
  }
  if (served) {
    announce(Sleepers::wake);
  } else {
    call->done_({StatusCode::internal, "the system starts no thread for this process; raise its limit (ulimit -u)"});
  }
  return call;
}

void Executor::startThreads() {
  while (threads_.size() < wantedThreads_) {
    try {
      threads_.emplace_back([this, index = static_cast<unsigned>(threads_.size())] { serve(index); });
    } catch (const std::system_error&) {
      return;  // fewer threads than wanted still serve every call
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

void Executor::parallelFor(int64_t tasks, const std::function<void(int64_t)>& body, Sleepers sleepers) {
  const unsigned helpers = tasks > 1 ? wantedThreads_ - 1 : 0;
  const auto loop = std::make_shared<Loop>(tasks, helpers, body);
  if (helpers > 0) publish(loop, sleepers);
  help(*loop);
  if (helpers > 0) withdraw(loop);
  watchFor([&] { return loop->hasEnded(); });
  std::unique_lock lock(loop->mutex);
  loop->ended.wait(lock, [&] { return loop->hasEnded(); });
  if (loop->thrown) std::rethrow_exception(loop->thrown);
}

void Executor::publish(const std::shared_ptr<Loop>& loop, Sleepers sleepers) {
  {
    const std::lock_guard lock(mutex_);
    startThreads();
    loops_.push_back(loop);
  }
  announce(sleepers);
}

void Executor::announce(Sleepers sleepers) {
  announcements_.fetch_add(1);
  if (sleepers == Sleepers::wake) changed_.notify_all();
}

void Executor::watch() const {
  const unsigned before = announcements_;
  watchFor([&] { return announcements_ != before; });
}

void Executor::withdraw(const std::shared_ptr<Loop>& loop) {
  const std::lock_guard lock(mutex_);
  loops_.erase(std::find(loops_.begin(), loops_.end(), loop));
}

void Executor::help(Loop& loop) {
  int64_t task;
  while ((task = loop.next.fetch_add(1)) < loop.tasks) {
    try {
      loop.body(task);
    } catch (...) {
      const std::lock_guard lock(loop.mutex);
      loop.thrown = std::current_exception();
    }
    if (loop.endedTasks.fetch_add(1, std::memory_order_acq_rel) + 1 < loop.tasks) continue;
    // With the mutex held, the caller either sees the last task ended or is asleep already.
    const std::lock_guard lock(loop.mutex);
    loop.ended.notify_all();
  }
}

bool Executor::isOpen(const std::shared_ptr<Loop>& loop) { return loop->seats > 0 && loop->next < loop->tasks; }

bool Executor::hasOpenLoop() const { return std::any_of(loops_.begin(), loops_.end(), isOpen); }

std::shared_ptr<Executor::Loop> Executor::joinLoop() {
  const auto place = std::find_if(loops_.begin(), loops_.end(), isOpen);
  if (place == loops_.end()) return nullptr;
  --(*place)->seats;
  return *place;
}

unsigned Executor::threads() const { return wantedThreads_; }

void Executor::setThreads(unsigned threads) {
  {
    const std::lock_guard lock(mutex_);
    wantedThreads_ = std::max(1u, threads);
    // Threads beyond the number stay, asleep; missing ones start with the next call.
  }
  changed_.notify_all();
}

void Executor::serve(unsigned index) {
  while (true) {
    std::shared_ptr<Call> call;
    std::shared_ptr<Loop> loop;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || (index < wantedThreads_ && (!queue_.empty() || hasOpenLoop())); });
      if (!queue_.empty() && index < wantedThreads_) {
        call = std::move(queue_.front());
        queue_.pop_front();
      } else if (!closing_) {
        loop = joinLoop();
      }
      if (call == nullptr && loop == nullptr) return;
    }
    if (loop != nullptr) {
      help(*loop);
      loop.reset();
      watch();
      continue;
    }
    Status status = callToStatus([&call] { return call->work_(call->cancellation_); });
    // What the work captured is let go before anybody hears that it has ended.
    call->work_ = nullptr;
    call->done_(std::move(status));
    call.reset();
    watch();
  }
}

}  // namespace warpconv
