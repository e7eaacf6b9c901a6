#include "executor/executor.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <span>
#include <system_error>

namespace warpconv {
namespace {

/**
 * How long a thread that has just finished looks for more before it sleeps. After a call, or for a loop's end, on a
 * virtual machine of two Zen 4 cores: a run() after another settles in 70 to 84 microseconds without, in 7 to 13 with
 * 50, and no sooner with 200 (bench/overhead.ts).
 */
constexpr std::chrono::microseconds kWatch{50};

/**
 * The same after it has helped with a loop: the next one comes soon, if the call goes on, or after what JavaScript does
 * between two runs of a network, 100 to 250 microseconds, since nothing of it is left in the caches. There, 1000
 * runSync() of MobileNetV2 in a row sleep 1500 times with 50 and 40 times with 250, in 1 % less time; those of
 * MobileNetV3 in 2 % less, and in no less with 1000.
 */
constexpr std::chrono::microseconds kLoopWatch{250};

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

Status abortedBeforeStart() { return Status::ofLiteral(StatusCode::aborted, "the call was cancelled before it started"); }

}  // namespace

Status callToStatus(const std::function<Status()>& work) {
  try {
    return work();
  } catch (...) {
    return thrownStatus();
  }
}

/**
 * Tasks in as many adjacent shares as threads may come. Each begins with a share of its own, the same one in every loop
 * of a call, and goes on with what is left of the others': loop after loop a thread finds in its own cache what it
 * wrote there.
 *
 * Loops are short and many, so that nothing is allocated for one: memory that one thread gets and another gives back
 * makes both wait for the allocator, asleep. Each thread keeps a loop, and lends it.
 */
class Executor::Loop {
 public:
  /** A thread's own, for as long as this lives; a new one where the thread is in a loop already. */
  class Lent {
   public:
    Lent() : loop_(std::move(spare)) {
      if (loop_ == nullptr) loop_ = std::make_unique<Loop>();
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() { spare = std::move(loop_); }
    Loop& operator*() const { return *loop_; }

   private:
    static thread_local std::unique_ptr<Loop> spare;
    std::unique_ptr<Loop> loop_;
  };

  /** Before anybody else sees it. */
  void begin(int64_t tasks, unsigned helpers, const TaskBody& body) {
    tasks_ = tasks;
    body_ = &body;
    caller_ = poolIndex;
    endedTasks_.store(0, std::memory_order_relaxed);
    if (memory_.size() <= helpers) memory_ = std::vector<Share>(helpers + 1);
    shares_ = std::span(memory_.data(), helpers + 1);
    const auto count = static_cast<int64_t>(shares_.size());
    for (int64_t i = 0; i < count; ++i) {
      shares_[static_cast<size_t>(i)].next.store(tasks * i / count, std::memory_order_relaxed);
      shares_[static_cast<size_t>(i)].end = tasks * (i + 1) / count;
    }
  }

  /** Runs tasks until none is left that nobody has begun. */
  void work() {
    const size_t own = ownShare();
    for (size_t i = 0; i < shares_.size(); ++i) {
      Share& share = shares_[(own + i) % shares_.size()];
      while (share.isLeft()) {
        const int64_t task = share.next.fetch_add(1, std::memory_order_relaxed);
        if (task < share.end) run(task);
      }
    }
  }

  /** Whether a caller from outside the pool takes the place of the pool's last thread. */
  bool replacesLastThread() const { return caller_ < 0; }

  bool isOpenTo(unsigned thread) const {
    return (!replacesLastThread() || thread + 1 < shares_.size()) &&
           std::any_of(shares_.begin(), shares_.end(), std::mem_fn(&Share::isLeft));
  }

  void join() { guests_.fetch_add(1, std::memory_order_relaxed); }
  /** The loop may be gone as soon as this has happened. */
  void leave() { guests_.fetch_sub(1); }

  /** Whether every task has ended and no thread but the caller's is in here. */
  bool isOver() const { return endedTasks_.load() == tasks_ && guests_.load() == 0; }

  /** Throws what a task has thrown, once the loop is over. */
  void rethrow() {
    if (!hasThrown_.load(std::memory_order_relaxed)) return;
    hasThrown_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;

    bool isLeft() const { return next.load(std::memory_order_relaxed) < end; }
  };

  /** The share that this thread begins with: the first of the caller, the others in the pool's order. */
  size_t ownShare() const {
    const auto count = static_cast<int>(shares_.size());
    const int ahead = (poolIndex - caller_) % count;
    return static_cast<size_t>(ahead < 0 ? ahead + count : ahead);
  }

  void run(int64_t task) {
    try {
      (*body_)(task);
    } catch (...) {
      if (!hasThrown_.exchange(true)) thrown_ = std::current_exception();
    }
    endedTasks_.fetch_add(1);
  }

  int64_t tasks_ = 0;
  /** Alive until parallelFor returns, which is after the last task has ended */
  const TaskBody* body_ = nullptr;
  /** poolIndex of the thread that has begun the loop */
  int caller_ = -1;
  /** As many shares as a loop of this thread has had at most */
  std::vector<Share> memory_;
  std::span<Share> shares_;
  std::atomic<int64_t> endedTasks_{0};
  /** Threads of the pool that have joined and not left */
  std::atomic<int> guests_{0};
  std::atomic<bool> hasThrown_{false};
  /** Of the first task that has thrown */
  std::exception_ptr thrown_;
};

thread_local std::unique_ptr<Executor::Loop> Executor::Loop::Lent::spare;

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

Executor::Executor(unsigned threads) : wantedThreads_(std::max(1u, threads)) {}

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
  while (!closing_ && threads_.size() < wantedThreads_) {
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

void Executor::parallelFor(int64_t tasks, TaskBody body, Sleepers sleepers) {
  const Loop::Lent lent;
  Loop& loop = *lent;
  const unsigned helpers = tasks > 1 ? wantedThreads_ - 1 : 0;
  loop.begin(tasks, helpers, body);
  if (helpers > 0) publish(loop, sleepers);
  loop.work();
  if (helpers > 0) {
    withdraw(loop);
    awaitEnd(loop);
  }
  loop.rethrow();
}

void Executor::publish(Loop& loop, Sleepers sleepers) {
  {
    const std::lock_guard lock(mutex_);
    startThreads();
    loops_.push_back(&loop);
  }
  // With the mutex free again: whoever watches takes it next.
  announcements_.fetch_add(1);
  if (sleepers == Sleepers::leave) return;
  if (loop.replacesLastThread()) {
    allButLast_.notify_all();
  } else {
    wakeAll();
  }
}

void Executor::wakeAll() {
  allButLast_.notify_all();
  last_.notify_all();
}

void Executor::withdraw(Loop& loop) {
  const std::lock_guard lock(mutex_);
  loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
}

void Executor::awaitEnd(Loop& loop) {
  if (loop.isOver()) return;
  watchFor([&] { return loop.isOver(); }, Clock::now() + kWatch);
  if (loop.isOver()) return;
  // Either this sees the last guest leave, or the guest sees this sleep: both orders are sequentially consistent.
  sleepingCallers_.fetch_add(1);
  {
    std::unique_lock lock(mutex_);
    loopEnded_.wait(lock, [&] { return loop.isOver(); });
  }
  sleepingCallers_.fetch_sub(1);
}

void Executor::leave(Loop& loop) {
  loop.leave();
  if (sleepingCallers_.load() == 0) return;
  // With the mutex held, a caller either sees the last guest gone or is asleep already.
  const std::lock_guard lock(mutex_);
  loopEnded_.notify_all();
}

Executor::Loop* Executor::joinLoop(unsigned thread) const {
  const auto place =
      std::find_if(loops_.begin(), loops_.end(), [=](const Loop* loop) { return loop->isOpenTo(thread); });
  if (place == loops_.end()) return nullptr;
  (*place)->join();
  return *place;
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

Executor::Job Executor::takeJob(unsigned thread) {
  if (queue_.empty()) return {nullptr, joinLoop(thread)};
  Job job{std::move(queue_.front()), nullptr};
  queue_.pop_front();
  return job;
}

Executor::Job Executor::nextJob(unsigned thread, unsigned& seen, std::chrono::microseconds watch) {
  const auto until = Clock::now() + watch;
  watchFor([&] { return announcements_ != seen; }, until);
  std::unique_lock lock(mutex_);
  while (!closing_) {
    seen = announcements_;
    Job job = thread < wantedThreads_ ? takeJob(thread) : Job{};
    if (job.call != nullptr || job.loop != nullptr) {
      // What is left will not be announced again.
      if (!queue_.empty() || loops_.size() > (job.loop != nullptr ? 1 : 0)) --seen;
      return job;
    }
    if (Clock::now() < until) {
      lock.unlock();
      watchFor([&] { return announcements_ != seen; }, until);
      lock.lock();
    } else {
      (thread + 1 < wantedThreads_ ? allButLast_ : last_).wait(lock);
    }
  }
  return {};
}

void Executor::serve(unsigned thread) {
  poolIndex = static_cast<int>(thread);
  unsigned seen = 0;
  std::chrono::microseconds watch = kWatch;
  while (true) {
    const Job job = nextJob(thread, seen, watch);
    watch = job.loop != nullptr ? kLoopWatch : kWatch;
    if (job.loop != nullptr) {
      job.loop->work();
      leave(*job.loop);
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
