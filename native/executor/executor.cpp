#include "executor/executor.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "devices/cpu_info.h"

namespace warpconv {
namespace {

/**
 * How long a thread that has just finished looks for more before it sleeps. After a call, or for a loop's end, on a
 * virtual machine of two Zen 4 cores: a run() after another settles in 70 to 84 microseconds without, in 7 to 13 with
 * 50, and no sooner with 200 (bench/cpu/overhead.ts).
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

/**
 * A call runs at least so long before another client's is let in: suspending one and waking another's thread takes 0.1
 * to 0.2 ms, and a call finds its data gone from the caches.
 */
constexpr std::chrono::milliseconds kTurn{5};

/** Suspended calls at most, each of which keeps a thread. With that many, further ones wait until one has ended. */
constexpr size_t kMostSuspended = 64;

using Clock = Executor::Clock;

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

Status abortedBeforeStart() noexcept {
  return Status::ofLiteral(StatusCode::aborted, "the call was cancelled before it started");
}

void tell(const Executor::Done& done, Status status) noexcept {
  try {
    done(std::move(status));
  } catch (...) {
    // It must not throw, and there is nobody else to tell.
  }
}

}  // namespace

/** What a thread of a pool is about. */
struct Executor::Worker {
  Executor* pool = nullptr;
  /** Which of the pool's places it has; kNoPlace for any other thread */
  int place = kNoPlace;
  /** The one it runs, if that may be suspended */
  Call* call = nullptr;

  static thread_local Worker own;
};

// Without a destructor, whose registration would take memory.
thread_local Executor::Worker Executor::Worker::own;

Executor::Undisturbed::Undisturbed() : call_(std::exchange(Worker::own.call, nullptr)) {}

Executor::Undisturbed::~Undisturbed() { Worker::own.call = call_; }

/**
 * Tasks in as many adjacent shares as threads may come. Each begins with a share of its own, the same one in every loop
 * of a call, and goes on with what is left of the others': loop after loop a thread finds in its own cache what it
 * wrote there.
 *
 * Loops are short and many, so that one lies on its caller's stack and nothing is allocated for it. That cannot fail,
 * and memory that one thread gets and another gives back would make both wait for the allocator, asleep.
 */
class Executor::Loop : public Linked<Loop> {
 public:
  Loop(int64_t tasks, int helpers, const TaskBody& body)
      : tasks_(tasks), body_(&body), helpers_(helpers), caller_(Worker::own.place) {
    const int64_t count = std::min<int64_t>(helpers, kMostShares - 1) + 1;
    auto* memory = reinterpret_cast<Share*>(memory_);
    for (int64_t i = 0; i < count; ++i) new (memory + i) Share{{tasks * i / count}, tasks * (i + 1) / count};
    shares_ = std::span(std::launder(memory), static_cast<size_t>(count));
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /** Runs tasks until none is left that nobody has begun, or `mustStop()` before one of them. */
  template <typename MustStop>
  void work(const MustStop& mustStop) {
    // Counted here and added once: threads that counted together would wait for one cache line at each task.
    int64_t ended = 0;
    const size_t own = ownShare();
    for (size_t i = 0; i < shares_.size(); ++i) ended += workOn(shares_[(own + i) % shares_.size()], mustStop);
    endedTasks_.fetch_add(ended);
  }

  bool isShared() const { return helpers_ > 0; }

  /** Whether a caller from outside the pool takes the place of the pool's last thread. */
  bool replacesLastThread() const { return caller_ < 0; }

  bool isOpenTo(int place) const {
    return (!replacesLastThread() || place < helpers_) &&
           std::any_of(shares_.begin(), shares_.end(), std::mem_fn(&Share::isLeft));
  }

  void join() { guests_.fetch_add(1, std::memory_order_relaxed); }
  /** The loop may be gone as soon as this has happened. */
  void leave() { guests_.fetch_sub(1); }

  /** Whether every task has ended and no thread but the caller's is in here. */
  bool isOver() const { return endedTasks_.load() == tasks_ && guests_.load() == 0; }

  /** Throws what a task has thrown, once the loop is over. */
  void rethrow() const {
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  }

 private:
  /** More threads begin with shares of others. */
  static constexpr int kMostShares = 128;

  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;

    bool isLeft() const { return next.load(std::memory_order_relaxed) < end; }
  };

  /** The share that this thread begins with: the first of the caller, the others in the pool's order. */
  size_t ownShare() const {
    const auto count = static_cast<int>(shares_.size());
    const int ahead = (Worker::own.place - caller_) % count;
    return static_cast<size_t>(ahead < 0 ? ahead + count : ahead);
  }

  /** Runs tasks of one share, and gives how many. */
  template <typename MustStop>
  int64_t workOn(Share& share, const MustStop& mustStop) {
    int64_t ended = 0;
    while (share.isLeft()) {
      if (mustStop()) return ended;
      const int64_t task = share.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= share.end) return ended;
      run(task);
      ++ended;
    }
    return ended;
  }

  void run(int64_t task) {
    try {
      (*body_)(task);
    } catch (...) {
      if (!hasThrown_.exchange(true)) thrown_ = std::current_exception();
    }
  }

  const int64_t tasks_;
  /** Alive until parallelFor returns, which is after the last task has ended */
  const TaskBody* const body_;
  /** Threads that may come besides the caller */
  const int helpers_;
  /** The place of the thread that has begun the loop */
  const int caller_;
  std::span<Share> shares_;
  std::atomic<int64_t> endedTasks_{0};
  /** Threads of the pool that have joined and not left */
  std::atomic<int> guests_{0};
  std::atomic<bool> hasThrown_{false};
  /** Of the first task that has thrown */
  std::exception_ptr thrown_;
  /** For the shares; nobody writes to what is not used */
  alignas(Share) std::byte memory_[kMostShares * sizeof(Share)];
};

std::shared_ptr<Executor> Executor::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Executor> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Executor> executor = current.lock();
  if (!executor) {
    // The event loop's thread has none for itself: it mostly sleeps, and where it does not it runs what is short itself.
    executor = std::make_shared<Executor>(usableProcessors());
    current = executor;
  }
  return executor;
}

Executor::Executor(unsigned threads) : wantedPlaces_(static_cast<int>(std::max(1u, threads))) {}

Executor::~Executor() {
  Chain<Call> abandoned;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    while (!clients_.isEmpty()) {
      Call& call = *clients_.first()->waiting_.first();
      dequeue(call);
      if (call.state_ == Call::State::suspended) {
        resume(call, kNoPlace);
      } else {
        abandoned.append(call);
      }
    }
  }
  wakeAll();
  placeLeft_.notify_all();
  while (!abandoned.isEmpty()) {
    Call& call = *abandoned.first();
    abandoned.remove(call);
    finish(call, abortedBeforeStart());
  }
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<Executor::Call> Executor::submit(Work work, Done done, std::shared_ptr<Client> client) {
  std::shared_ptr<Call> call;
  try {
    if (client == nullptr) client = std::make_shared<Client>();
    call = std::make_shared<Call>(std::move(work), std::move(done), std::move(client));
  } catch (const std::bad_alloc&) {
    // Arguments are moved only into a call that has memory.
    tell(done, outOfMemory());
    return nullptr;
  }
  call->self_ = call;
  Status started;
  {
    const std::lock_guard lock(mutex_);
    started = startThreads();
    if (started.isOk()) {
      // Who had nothing to run for a while has no time to catch up on.
      Clock::duration& time = call->client_->served_;
      time = std::max(time, virtualNow_);
      enqueue(*call);
      announcements_.fetch_add(1);
    }
  }
  if (started.isOk()) {
    wakeOne();
  } else {
    finish(*call, std::move(started));
  }
  return call;
}

Status Executor::startThreads() noexcept {
  Status failure;
  try {
    for (; !closing_ && manned_ < wantedPlaces_; ++manned_) man(manned_);
  } catch (const std::bad_alloc&) {
    failure = outOfMemory();
  } catch (const std::system_error&) {
    failure = Status::ofLiteral(StatusCode::internal,
                                "the system starts no thread for this process; raise its limit (ulimit -u)");
  }
  // Fewer threads than wanted still serve every call.
  return manned_ > 0 ? Status{} : failure;
}

void Executor::man(int place) {
  if (awaitingPlace_ > vacant_.size()) {
    vacant_.push_back(place);
    placeLeft_.notify_one();
  } else {
    vacant_.reserve(threads_.size() + 1);
    threads_.emplace_back([this, place] { serve(place); });
  }
}

void Executor::cancel(const std::shared_ptr<Call>& call) {
  if (call == nullptr) return;
  call->cancellation_.request();
  {
    const std::lock_guard lock(mutex_);
    const bool isSuspended = call->state_ == Call::State::suspended;
    if (!isSuspended && call->state_ != Call::State::queued) return;
    dequeue(*call);
    if (isSuspended) return resume(*call, kNoPlace);
    call->state_ = Call::State::ended;
  }
  finish(*call, abortedBeforeStart());
}

void Executor::parallelFor(int64_t tasks, TaskBody body, Sleepers sleepers) {
  Loop loop(tasks, tasks > 1 ? wantedPlaces_ - 1 : 0, body);
  if (loop.isShared()) publish(loop, sleepers);
  loop.work([this] {
    yield();
    return false;
  });
  if (loop.isShared()) {
    withdraw(loop);
    awaitEnd(loop);
  }
  loop.rethrow();
}

void Executor::publish(Loop& loop, Sleepers sleepers) {
  {
    const std::lock_guard lock(mutex_);
    // Without any, the caller runs all of it.
    static_cast<void>(startThreads());
    loops_.append(loop);
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

/**
 * Wakes a thread for a call: to wake all of 16 took 18 us of the event loop's time. The last place's has to be woken,
 * too, as the others may be busy, and so have those beyond the number that is wanted, which wait beside it.
 */
void Executor::wakeOne() {
  allButLast_.notify_one();
  last_.notify_all();
}

void Executor::wakeAll() {
  allButLast_.notify_all();
  last_.notify_all();
}

void Executor::withdraw(Loop& loop) {
  const std::lock_guard lock(mutex_);
  loops_.remove(loop);
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

Executor::Loop* Executor::joinLoop(int place) const {
  Loop* loop = loops_.first();
  while (loop != nullptr && !loop->isOpenTo(place)) loop = loop->next();
  if (loop != nullptr) loop->join();
  return loop;
}

unsigned Executor::threads() const { return static_cast<unsigned>(wantedPlaces_); }

void Executor::setThreads(unsigned threads) {
  {
    const std::lock_guard lock(mutex_);
    wantedPlaces_ = static_cast<int>(std::max(1u, threads));
    // Threads beyond the number stay, asleep; missing ones start with the next call.
  }
  wakeAll();
}

Executor::Job Executor::takeJob(int place) {
  Client* const client = nextClient();
  if (client == nullptr) return {.loop = joinLoop(place)};
  Call& call = *client->waiting_.first();
  dequeue(call);
  if (call.state_ == Call::State::suspended) {
    resume(call, place);
    return {.leftPlace = true};
  }
  beginTurn(call);
  startClock(call);
  return {.call = &call};
}

Executor::Job Executor::nextJob(int place, unsigned& seen, std::chrono::microseconds watch) {
  const auto until = Clock::now() + watch;
  watchFor([&] { return announcements_ != seen; }, until);
  std::unique_lock lock(mutex_);
  while (!closing_) {
    seen = announcements_;
    const Job job = place < wantedPlaces_ ? takeJob(place) : Job{};
    if (job.call != nullptr || job.loop != nullptr || job.leftPlace) {
      // What is left will not be announced again.
      const bool otherLoops = loops_.first() != job.loop || (job.loop != nullptr && job.loop->next() != nullptr);
      if (isCrowded() || otherLoops) --seen;
      return job;
    }
    if (Clock::now() < until) {
      lock.unlock();
      watchFor([&] { return announcements_ != seen; }, until);
      lock.lock();
    } else {
      (place + 1 < wantedPlaces_ ? allButLast_ : last_).wait(lock);
    }
  }
  return {};
}

int Executor::awaitPlace() {
  std::unique_lock lock(mutex_);
  ++awaitingPlace_;
  placeLeft_.wait(lock, [this] { return closing_ || !vacant_.empty(); });
  --awaitingPlace_;
  if (closing_) return kNoPlace;
  const int place = vacant_.back();
  vacant_.pop_back();
  return place;
}

void Executor::serve(int place) {
  Worker& own = Worker::own;
  own = {this, place, nullptr};
  unsigned seen = announcements_ - 1;
  std::chrono::microseconds watch = kWatch;
  while (own.place != kNoPlace) {
    const Job job = nextJob(own.place, seen, watch);
    watch = job.loop != nullptr ? kLoopWatch : kWatch;
    if (job.loop != nullptr) {
      // Calls come before loops, as in takeJob.
      job.loop->work([this] { return isCrowded(); });
      leave(*job.loop);
    } else if (job.call != nullptr) {
      runCall(*job.call);
    } else if (job.leftPlace) {
      own.place = kNoPlace;
    } else {
      return;
    }
    // Without one after a call that went on to end, too
    if (own.place != kNoPlace) continue;
    own.place = awaitPlace();
    seen = announcements_ - 1;
  }
}

void Executor::runCall(Call& call) {
  Worker::own.call = &call;
  Status status = callToStatus([&call] { return call.work_(call.cancellation_); });
  Worker::own.call = nullptr;
  if (isCrowded()) {
    const std::lock_guard lock(mutex_);
    charge(call, Clock::now());
  }
  endTurn(call, Call::State::ended);
  finish(call, std::move(status));
}

void Executor::finish(Call& call, Status status) noexcept {
  const std::shared_ptr<Call> kept = std::move(call.self_);
  // What the work captured is let go before anybody hears that it has ended.
  call.work_ = nullptr;
  tell(call.done_, std::move(status));
}

void Executor::yieldTurn() {
  Worker& own = Worker::own;
  Call* const call = own.call;
  if (call == nullptr || own.pool != this || own.place == kNoPlace) return;
  const Clock::time_point now = Clock::now();
  if (now < call->turnEnds_) return;
  std::unique_lock lock(mutex_);
  charge(*call, now);
  call->turnEnds_ = now + kTurn;
  Client* const next = nextClient();
  const bool othersCanServe = turns_ < std::min<int>(manned_, wantedPlaces_);
  if (next == nullptr || othersCanServe) return;
  if (next == call->client_.get() || next->served_ > call->client_->served_) return;
  if (!passOn(own.place, *next)) return;
  endTurn(*call, Call::State::suspended);
  enqueue(*call);
  call->resumed_.wait(lock, [call] { return call->state_ == Call::State::running; });
  own.place = call->place_;
  startClock(*call);
}

bool Executor::passOn(int place, Client& client) {
  Call& call = *client.waiting_.first();
  if (call.state_ == Call::State::suspended) {
    dequeue(call);
    resume(call, place);
    return true;
  }
  if (awaitingPlace_ == vacant_.size() && threads_.size() >= kMostSuspended + static_cast<size_t>(wantedPlaces_)) {
    return false;
  }
  try {
    man(place);
    return true;
  } catch (const std::exception&) {
    return false;  // for want of memory, or because the system starts no more threads
  }
}

Executor::Client* Executor::nextClient() const {
  Client* next = clients_.first();
  for (Client* client = next; client != nullptr; client = client->next()) {
    if (client->served_ < next->served_) next = client;
  }
  return next;
}

void Executor::enqueue(Call& call) {
  if (!isCrowded()) crowdedSince_ = Clock::now();
  waiting_.fetch_add(1, std::memory_order_relaxed);
  Client& client = *call.client_;
  if (client.waiting_.isEmpty()) clients_.append(client);
  if (call.state_ == Call::State::suspended) {
    client.waiting_.prepend(call);
  } else {
    client.waiting_.append(call);
  }
}

void Executor::dequeue(Call& call) {
  Client& client = *call.client_;
  client.waiting_.remove(call);
  if (client.waiting_.isEmpty()) clients_.remove(client);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void Executor::beginTurn(Call& call) {
  ++turns_;
  call.state_ = Call::State::running;
  virtualNow_ = std::max(virtualNow_, call.client_->served_);
}

void Executor::startClock(Call& call) {
  call.since_ = Clock::now();
  call.turnEnds_ = call.since_ + kTurn;
}

void Executor::endTurn(Call& call, Call::State next) {
  if (Worker::own.place != kNoPlace) --turns_;
  call.state_ = next;
}

void Executor::charge(Call& call, Clock::time_point now) {
  const Clock::duration time = now - std::max(call.since_, crowdedSince_);
  call.client_->served_ += std::max(time, Clock::duration::zero());
  call.since_ = now;
}

void Executor::resume(Call& call, int place) {
  call.place_ = place;
  if (place == kNoPlace) {
    call.state_ = Call::State::running;
  } else {
    beginTurn(call);
  }
  call.resumed_.notify_one();
}

}  // namespace warpconv
