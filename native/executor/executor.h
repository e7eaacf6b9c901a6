#pragma once

#include <atomic>
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

  explicit Executor(unsigned threads) : wantedThreads_(threads) {}
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
  void parallelFor(int64_t tasks, const std::function<void(int64_t)>& body, Sleepers sleepers = Sleepers::wake);

  unsigned threads() const;
  /** How many threads serve from now on; at least 1. Calls in flight are not disturbed. */
  void setThreads(unsigned threads);

 private:
  struct Loop;
  /** What a thread of the pool does next: one of the two, or neither where the executor ends. */
  struct Job {
    std::shared_ptr<Call> call;
    std::shared_ptr<Loop> loop;
  };

  void startThreads();
  void serve(unsigned thread);
  /** Waits for it, awake for a while: waking up a sleeping thread takes longer than many a call. */
  Job nextJob(unsigned thread);
  static void runCall(Call& call);
  void wakeAll();
  void publish(const std::shared_ptr<Loop>& loop, Sleepers sleepers);
  void withdraw(const std::shared_ptr<Loop>& loop);
  static void help(Loop& loop);
  static void runTask(Loop& loop, int64_t task);
  /** A loop with tasks left that this thread of the pool may join, or null. With the mutex held. */
  std::shared_ptr<Loop> openLoop(unsigned thread) const;

  std::atomic<unsigned> wantedThreads_;
  std::atomic<unsigned> announcements_{0};
  mutable std::mutex mutex_;
  /** On the second sleeps the pool's last thread, whose place a caller from outside takes: its loops do not wake it. */
  std::condition_variable allButLast_, last_;
  std::deque<std::shared_ptr<Call>> queue_;
  std::deque<std::shared_ptr<Loop>> loops_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/** Runs `work`, turning what it throws into a status. */
Status callToStatus(const std::function<Status()>& work);

}  // namespace warpconv
