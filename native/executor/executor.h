#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/cancellation.h"
#include "status.h"

namespace warpconv {

/** What a loop does with each task, by reference: a std::function would allocate. Not to outlive the call. */
class TaskBody {
 public:
  template <typename Body>
  TaskBody(const Body& body)  // NOLINT(google-explicit-constructor): so that a lambda can be passed
      : body_(&body), call_([](const void* given, int64_t task) { (*static_cast<const Body*>(given))(task); }) {}

  void operator()(int64_t task) const { call_(body_, task); }

 private:
  const void* body_;
  void (*call_)(const void*, int64_t);
};

/**
 * The threads that convolutions run on: first in, first out, shared by every JavaScript environment of the process
 * and independent of libuv's pool. Threads start with the first call, sleep when there is nothing to do, and end with
 * the executor. A thread without a call of its own helps those that others have split with parallelFor, so that a lone
 * call has all threads and many calls have one each.
 */
class Executor {
 public:
  using Work = std::function<Status(const Cancellation&)>;
  /** Called exactly once per call, on an executor thread or on the thread that cancels or submits. */
  using Done = std::function<void(Status)>;

  /** One submitted call. */
  class Call {
   public:
    Call(Work work, Done done) : work_(std::move(work)), done_(std::move(done)) {}

   private:
    friend class Executor;
    Work work_;
    Done done_;
    Cancellation cancellation_;
  };

  /** What to do with idle threads that have gone to sleep. */
  enum class Sleepers { wake, leave };

  /** At least one thread */
  explicit Executor(unsigned threads);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /** Waits for running calls; calls still queued end as aborted. Not to be called on one of its own threads. */
  ~Executor();

  /** The process's executor; lives as long as somebody holds it. */
  static std::shared_ptr<Executor> shared();

  std::shared_ptr<Call> submit(Work work, Done done);

  /** A queued call ends as aborted before this returns; a running one is asked to stop; an ended one is left alone. */
  void cancel(const std::shared_ptr<Call>& call);

  /**
   * Calls body(0) … body(tasks - 1), each once, on this thread and on those that are idle, and returns when all have
   * ended. Threads begin where they began in the call's other loops, so that loops over the same data in the same order
   * find it in their caches. Any thread may call it, one of the executor's own included. What a body throws is thrown
   * here, once. Threads that sleep are woken only where `sleepers` says so: on a virtual machine that takes the caller
   * longer than many a loop does.
   */
  void parallelFor(int64_t tasks, TaskBody body, Sleepers sleepers = Sleepers::wake);

  unsigned threads() const;
  /** How many threads serve from now on; at least 1. Calls in flight are not disturbed. */
  void setThreads(unsigned threads);

 private:
  class Loop;
  /** What a thread of the pool does next: one of the two, or neither where the executor ends. */
  struct Job {
    std::shared_ptr<Call> call;
    Loop* loop = nullptr;
  };

  void startThreads();
  void serve(unsigned thread);
  /**
   * Waits for it, awake for as long as `watch`: waking up a sleeping thread takes longer than many a call. `seen` is
   * how many announcements the thread has followed up.
   */
  Job nextJob(unsigned thread, unsigned& seen, std::chrono::microseconds watch);
  /** A call, or else a loop, or neither. With the mutex held. */
  Job takeJob(unsigned thread);
  static void runCall(Call& call);
  void wakeAll();
  void publish(Loop& loop, Sleepers sleepers);
  void withdraw(Loop& loop);
  /** Returns when the loop has ended and no other thread is in it. */
  void awaitEnd(Loop& loop);
  /** The last thing that a thread of the pool does with a loop. */
  void leave(Loop& loop);
  /** A loop with tasks left, which this thread of the pool has joined, or null. With the mutex held. */
  Loop* joinLoop(unsigned thread) const;

  std::atomic<unsigned> wantedThreads_;
  std::atomic<unsigned> announcements_{0};
  mutable std::mutex mutex_;
  /** On the second sleeps the pool's last thread, whose place a caller from outside takes: its loops do not wake it. */
  std::condition_variable allButLast_, last_;
  std::deque<std::shared_ptr<Call>> queue_;
  std::vector<Loop*> loops_;
  /** Callers that sleep until their loops have ended */
  std::atomic<int> sleepingCallers_{0};
  std::condition_variable loopEnded_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/** Runs `work`, turning what it throws into a status. */
Status callToStatus(const std::function<Status()>& work);

}  // namespace warpconv
