#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/cancellation.h"
#include "executor/chain.h"
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
 * The threads that convolutions run on, shared by every JavaScript environment of the process and independent of
 * libuv's pool. Threads start with the first call, sleep when there is nothing to do, and end with the executor. A
 * thread without a call of its own helps those that others have split with parallelFor, so that a lone call has all
 * threads and many calls have one each.
 *
 * Clients take turns. The calls of one are served first in, first out. Where calls wait for a thread, the next turn is
 * that of the client with the least time served so far, and a call whose turn is over is suspended at its next yield()
 * if another client has had less. A suspended call keeps its thread, asleep, and leaves its place to another thread: as
 * many threads as there are places run at a time.
 *
 * No failed allocation ends the process: a call then ends as out of memory, and loops take none.
 */
class Executor {
 public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<Status(const Cancellation&)>;
  /** Called exactly once per call, on an executor thread or on the one that cancels or submits. Must not throw. */
  using Done = std::function<void(Status)>;

  class Call;

  /** On whose behalf calls run: a session or a plan. */
  class Client : public Linked<Client> {
   private:
    friend class Executor;
    /** Time that its calls ran while others waited, counted from that of the others when it came */
    Clock::duration served_{};
    Chain<Call> waiting_;
  };

  /** One submitted call. */
  class Call : public Linked<Call> {
   public:
    Call(Work work, Done done, std::shared_ptr<Client> client)
        : work_(std::move(work)), done_(std::move(done)), client_(std::move(client)) {}

   private:
    friend class Executor;
    enum class State { queued, running, suspended, ended };

    Work work_;
    Done done_;
    const std::shared_ptr<Client> client_;
    /** Until it has ended */
    std::shared_ptr<Call> self_;
    Cancellation cancellation_;
    /** Changes with the mutex held, except when a running call ends */
    std::atomic<State> state_ = State::queued;
    /** Since when the time that it runs is to be added to its client's */
    Clock::time_point since_;
    Clock::time_point turnEnds_;
    /** Of a suspended call: the place that it is given to go on in */
    int place_ = kNoPlace;
    std::condition_variable resumed_;
  };

  /** What to do with idle threads that have gone to sleep. */
  enum class Sleepers { wake, leave };

  /** While one lives, the call that this thread runs is not suspended: it is being timed. */
  class Undisturbed {
   public:
    Undisturbed();
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;
    ~Undisturbed();

   private:
    Call* const call_;
  };

  /** At least one thread */
  explicit Executor(unsigned threads);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  /** Waits for running calls; calls still queued end as aborted. Not to be called on one of its own threads. */
  ~Executor();

  /** The process's executor; lives as long as somebody holds it. */
  static std::shared_ptr<Executor> shared();

  /** A call without a client is one of its own. Null where the call has ended before, for want of memory. */
  std::shared_ptr<Call> submit(Work work, Done done, std::shared_ptr<Client> client = nullptr);

  /**
   * A queued call ends as aborted before this returns; a running one is asked to stop, and a suspended one goes on at
   * once to do so; an ended one, or null, is left alone.
   */
  void cancel(const std::shared_ptr<Call>& call);

  /**
   * Calls body(0) … body(tasks - 1), each once, on this thread and on those that are idle, and returns when all have
   * ended. Threads begin where they began in the call's other loops, so that loops over the same data in the same order
   * find it in their caches. Any thread may call it, one of the executor's own included. What a body throws is thrown
   * here, once. Threads that sleep are woken only where `sleepers` says so: on a virtual machine that takes the caller
   * longer than many a loop does. Yields between tasks.
   */
  void parallelFor(int64_t tasks, TaskBody body, Sleepers sleepers = Sleepers::wake);

  /**
   * Suspends the call that this thread runs, if its turn is over and another client's is next. Costs a look where no
   * call waits, and does nothing on other threads. Not to be called with a lock held that other calls take.
   */
  void yield() {
    if (isCrowded()) yieldTurn();
  }

  unsigned threads() const;
  /** How many threads serve from now on; at least 1. Calls in flight are not disturbed. */
  void setThreads(unsigned threads);

 private:
  class Loop;
  struct Worker;
  /** What a thread of the pool does next: one of the two, or neither where the executor ends. */
  struct Job {
    Call* call = nullptr;
    Loop* loop = nullptr;
    /** A suspended call goes on in the thread's place. */
    bool leftPlace = false;
  };

  static constexpr int kNoPlace = -1;

  bool isCrowded() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  /** As many as are wanted; fails where there is none then. With the mutex held. */
  Status startThreads() noexcept;
  /** Gives the place to a thread that has none, or to a new one; throws where there is none. With the mutex held. */
  void man(int place);
  void serve(int place);
  /** Waits for a place that a suspended call has left; kNoPlace where the executor ends. */
  int awaitPlace();
  /**
   * Waits for it, awake for as long as `watch`: waking up a sleeping thread takes longer than many a call. `seen` is
   * how many announcements the thread has followed up.
   */
  Job nextJob(int place, unsigned& seen, std::chrono::microseconds watch);
  /** A call, or else a loop, or neither. With the mutex held. */
  Job takeJob(int place);
  void runCall(Call& call);
  static void finish(Call& call, Status status) noexcept;

  void yieldTurn();
  /** Has the client's first call go on, or begin, in the place; false where no thread can begin it. */
  bool passOn(int place, Client& client);
  /** Whose turn is next, or null where no call waits. This and all below are called with the mutex held. */
  Client* nextClient() const;
  void enqueue(Call& call);
  void dequeue(Call& call);
  void beginTurn(Call& call);
  /** By the thread that has run it; the only one here that needs no mutex */
  void endTurn(Call& call, Call::State next);
  /** By the thread that runs it, once it does: waking up is no part of a turn. */
  static void startClock(Call& call);
  /** Adds what the call has run, while others waited, to its client's time. */
  void charge(Call& call, Clock::time_point now);
  void resume(Call& call, int place);

  void wakeOne();
  void wakeAll();
  void publish(Loop& loop, Sleepers sleepers);
  void withdraw(Loop& loop);
  /** Returns when the loop has ended and no other thread is in it. */
  void awaitEnd(Loop& loop);
  /** The last thing that a thread of the pool does with a loop. */
  void leave(Loop& loop);
  /** A loop with tasks left, which this thread of the pool has joined, or null. With the mutex held. */
  Loop* joinLoop(int place) const;

  std::atomic<int> wantedPlaces_;
  /** Calls that are queued or suspended */
  std::atomic<unsigned> waiting_{0};
  /** Apart from what every yield() reads */
  alignas(64) std::atomic<unsigned> announcements_{0};
  mutable std::mutex mutex_;
  /** On the second sleeps the pool's last thread, whose place a caller from outside takes: its loops do not wake it. */
  std::condition_variable allButLast_, last_;
  /** Those of which calls wait */
  Chain<Client> clients_;
  /** The least time of those whose turn has begun: what one that comes anew counts from */
  Clock::duration virtualNow_{};
  /** Since when calls have waited without a break */
  Clock::time_point crowdedSince_;
  Chain<Loop> loops_;
  /** Callers that sleep until their loops have ended */
  std::atomic<int> sleepingCallers_{0};
  std::condition_variable loopEnded_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
  /** Places from 0 on that threads have, or calls have left to threads that are about to take them */
  int manned_ = 0;
  /** Calls that run in a place */
  std::atomic<int> turns_{0};
  /** Room for one for each thread */
  std::vector<int> vacant_;
  size_t awaitingPlace_ = 0;
  std::condition_variable placeLeft_;
};

/** Runs `work`, which returns a status, and turns what it throws into one. */
template <typename Function>
Status callToStatus(const Function& work) noexcept {
  try {
    return work();
  } catch (...) {
    return thrownStatus();
  }
}

}  // namespace warpconv
