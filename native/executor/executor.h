#pragma once

#include <condition_variable>
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
 * and independent of libuv's pool. Threads start with the first call and end with the executor.
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

 private:
  void startThreads();
  void serve();

  const unsigned wantedThreads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> queue_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/** Runs `work`, turning what it throws into a status. */
Status callToStatus(const std::function<Status()>& work);

}  // namespace warpconv
