#include "executor/executor.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
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

using Clock = std::chrono::steady_clock;

/** Waits awake until `happened()`, but no longer than `until`. */
template <typename Happened>
void watchFor(Happened happened, Clock::time_point until) {
  // Reading the clock takes as long as several looks.
  constexpr int kLooksPerReading = 16;
  do {
    for (int look = 0; look < kLooksPerReading; ++look) {
      if (happened()) return;
      relax();
    }
  } while (Clock::now() < until);
}

/** Which of its pool's threads this one is; -1 for any other thread. */
thread_local int poolIndex = -1;

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

/**
 * Tasks in as many adjacent shares as threads may come. Each begins with a share of its own, the same one in every loop
 * of a call, and goes on with what is left of the others': loop after loop a thread finds in its own cache what it
 * wrote there.
 */
struct Executor::Loop {
  Loop(int64_t taskCount, unsigned helpers, const std::function<void(int64_t)>& taskBody)
      : tasks(taskCount), body(taskBody), caller(poolIndex), shares(helpers + 1) {
    const auto count = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < count; ++i) {
      shares[static_cast<size_t>(i)].next = tasks * i / count;
      shares[static_cast<size_t>(i)].end = tasks * (i + 1) / count;
    }
  }

  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;

    bool isLeft() const { return next.load(std::memory_order_relaxed) < end; }
  };

  const int64_t tasks;
  /** Alive until parallelFor returns, which is after the last task has ended */
  const std::function<void(int64_t)>& body;
  /** poolIndex of the thread that has begun the loop */
  const int caller;
  std::vector<Share> shares;

  std::atomic<int64_t> endedTasks{0};
  std::mutex mutex;
  std::condition_variable ended;
  /** Guarded by `mutex` */
  std::exception_ptr thrown;

  bool hasEnded() const { return endedTasks.load(std::memory_order_acquire) == tasks; }
  bool isLeft() const { return std::any_of(shares.begin(), shares.end(), std::mem_fn(&Share::isLeft)); }

  /** Whether a caller from outside the pool takes the place of the pool's last thread. */
  bool replacesLastThread() const { return caller < 0; }

  bool isOpenTo(unsigned thread) const { return (!replacesLastThread() || thread + 1 < shares.size()) && isLeft(); }

  /** The share that this thread begins with: the first of the caller, the others in the pool's order. */
  size_t ownShare() const {
    const auto count = static_cast<int>(shares.size());
    const int ahead = (poolIndex - caller) % count;
    return static_cast<size_t>(ahead < 0 ? ahead + count : ahead);
  }
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
  wakeAll();
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
    if (served) {
      queue_.push_back(call);
      announcements_.fetch_add(1);
    }
  }
  if (served) {
    wakeAll();
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
  watchFor([&] { return loop->hasEnded(); }, Clock::now() + kWatch);
  std::unique_lock lock(loop->mutex);
  loop->ended.wait(lock, [&] { return loop->hasEnded(); });
  if (loop->thrown) std::rethrow_exception(loop->thrown);
}

void Executor::publish(const std::shared_ptr<Loop>& loop, Sleepers sleepers) {
  {
    const std::lock_guard lock(mutex_);
    startThreads();
    loops_.push_back(loop);
    announcements_.fetch_add(1);
  }
  if (sleepers == Sleepers::leave) return;
  if (loop->replacesLastThread()) {
    allButLast_.notify_all();
  } else {
    wakeAll();
  }
}

void Executor::wakeAll() {
  allButLast_.notify_all();
  last_.notify_all();
}

void Executor::withdraw(const std::shared_ptr<Loop>& loop) {
  const std::lock_guard lock(mutex_);
  loops_.erase(std::find(loops_.begin(), loops_.end(), loop));
}

void Executor::help(Loop& loop) {
  const size_t own = loop.ownShare();
  for (size_t i = 0; i < loop.shares.size(); ++i) {
    Loop::Share& share = loop.shares[(own + i) % loop.shares.size()];
    while (share.isLeft()) {
      const int64_t task = share.next.fetch_add(1);
      if (task < share.end) runTask(loop, task);
    }
  }
}

void Executor::runTask(Loop& loop, int64_t task) {
  try {
    loop.body(task);
  } catch (...) {
    const std::lock_guard lock(loop.mutex);
    loop.thrown = std::current_exception();
  }
  if (loop.endedTasks.fetch_add(1, std::memory_order_acq_rel) + 1 < loop.tasks) return;
  // With the mutex held, the caller either sees the last task ended or is asleep already.
  const std::lock_guard lock(loop.mutex);
  loop.ended.notify_all();
}

std::shared_ptr<Executor::Loop> Executor::openLoop(unsigned thread) const {
  const auto place =
      std::find_if(loops_.begin(), loops_.end(), [=](const auto& loop) { return loop->isOpenTo(thread); });
  return place == loops_.end() ? nullptr : *place;
}

unsigned Executor::threads() const { return wantedThreads_; }

void Executor::setThreads(unsigned threads) {
  {
    const std::lock_guard lock(mutex_);
    wantedThreads_ = std::max(1u, threads);
    // Threads beyond the number stay, asleep; missing ones start with the next call.
  }
  wakeAll();
}

Executor::Job Executor::nextJob(unsigned thread) {
  const auto until = Clock::now() + kWatch;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (thread < wantedThreads_ && !queue_.empty()) {
      Job job{std::move(queue_.front()), nullptr};
      queue_.pop_front();
      return job;
    }
    if (std::shared_ptr<Loop> loop = thread < wantedThreads_ ? openLoop(thread) : nullptr) return {nullptr, loop};
    if (Clock::now() < until) {
      const unsigned before = announcements_;
      lock.unlock();
      watchFor([&] { return announcements_ != before; }, until);
      lock.lock();
    } else {
      (thread + 1 < wantedThreads_ ? allButLast_ : last_).wait(lock);
    }
  }
  return {};
}

void Executor::serve(unsigned thread) {
  poolIndex = static_cast<int>(thread);
  while (true) {
    const Job job = nextJob(thread);
    if (job.loop != nullptr) {
      help(*job.loop);
    } else if (job.call != nullptr) {
      runCall(*job.call);
    } else {
      return;
    }
  }
}

void Executor::runCall(Call& call) {
  Status status = callToStatus([&call] { return call.work_(call.cancellation_); });
  // What the work captured is let go before anybody hears that it has ended.
  call.work_ = nullptr;
  call.done_(std::move(status));
}

}  // namespace warpconv
