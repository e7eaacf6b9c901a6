#include "binding/environment.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "binding/backing_store.h"
#include "binding/failure.h"
#include "binding/pinned_buffer.h"
#include "cpu/cpu_backend.h"

namespace warpconv::binding {
namespace {

/**
 * Calls that are settled before the event loop turns. Whoever waited for one often begins the next, which for a GPU
 * takes 15 to 100 us of this thread: of 64 chains of small runs all that had ended were settled together, and a timer
 * was up to 16 ms late.
 */
constexpr size_t kSettledAtOnce = 16;
/**
 * What beginning work elsewhere may take of a turn: 64 chains of small runs that began in one took 4.8 to 6.9 ms of it,
 * most of that in the driver. (Other threads would not do it sooner: they wait for the driver's locks.)
 */
constexpr std::chrono::milliseconds kBeginningOfTurn{1};

/** A function of the event loop's thread that any thread may call. Does not keep the loop alive, unless asked to. */
napi_threadsafe_function makeThreadsafe(Napi::Env env, void* context, napi_threadsafe_function_call_js call) {
  napi_threadsafe_function made = nullptr;
  check(env, napi_create_threadsafe_function(env, nullptr, nullptr, Napi::String::New(env, "warpconv"), 0, 1, nullptr,
                                             nullptr, context, call, &made));
  napi_unref_threadsafe_function(env, made);
  return made;
}

bool wake(napi_threadsafe_function function) noexcept {
  return function != nullptr && napi_call_threadsafe_function(function, nullptr, napi_tsfn_nonblocking) == napi_ok;
}

void release(napi_threadsafe_function function) noexcept {
  if (function != nullptr) napi_release_threadsafe_function(function, napi_tsfn_abort);
}

}  // namespace

/** What executor threads share with the environment; outlives it where a thread still holds it. */
class Environment::Mailbox {
 public:
  /** One finished call, or none */
  using Letter = std::list<Finished>;

  explicit Mailbox(napi_threadsafe_function look) : look_(look) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() { release(look_); }

  void expect() noexcept {
    const std::lock_guard lock(mutex_);
    ++running_;
  }

  /** Takes the letter, unless somebody has: a call ends once. */
  void post(Letter& letter, Status status) noexcept {
    const std::lock_guard lock(mutex_);
    if (letter.empty()) return;
    letter.front().status = std::move(status);
    finished_.splice(finished_.end(), letter);
    --running_;
    if (!awaited_) awaited_ = wake(look_);
    changed_.notify_all();
  }

  /** The first of what has finished. Where that is nothing, nobody is awaited any more, unless they look `again`. */
  std::list<Finished> take(size_t most, bool again) noexcept {
    const std::lock_guard lock(mutex_);
    std::list<Finished> taken;
    const auto end = std::next(finished_.begin(), static_cast<std::ptrdiff_t>(std::min(finished_.size(), most)));
    taken.splice(taken.end(), finished_, finished_.begin(), end);
    awaited_ = again || !taken.empty();
    return taken;
  }

  /** Has somebody look, unless that is on its way. */
  void ask() noexcept {
    const std::lock_guard lock(mutex_);
    if (!awaited_) awaited_ = wake(look_);
  }
  /** The same where the way has ended: here, or before it began. */
  void askNow() noexcept {
    const std::lock_guard lock(mutex_);
    awaited_ = wake(look_);
  }

  /** On the JavaScript thread */
  void keepLoopAlive(napi_env env, bool alive) noexcept {
    if (look_ == nullptr) return;
    if (alive) {
      napi_ref_threadsafe_function(env, look_);
    } else {
      napi_unref_threadsafe_function(env, look_);
    }
  }

  /** From now on nobody is told of anything. */
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    release(std::exchange(look_, nullptr));
  }
  void awaitRunning() noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Finished> finished_;
  /** Calls that have begun and not finished */
  size_t running_ = 0;
  /** Somebody is going to look for finished calls, on the JavaScript thread. */
  bool awaited_ = false;
  /** Null once the environment has begun to end */
  napi_threadsafe_function look_;
};

/**
 * A call's way to the mailbox. What travels was allocated when the call began. The call ends here at the latest: it can
 * only be lost where there was no memory to begin it.
 */
class Environment::Ending {
 public:
  explicit Ending(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    if (!letter_.empty()) end(outOfMemory());
  }

  /** From now on the call has begun. */
  void begin(Mailbox::Letter letter) noexcept {
    letter_ = std::move(letter);
    mailbox_->expect();
  }
  /** On any thread. Again is harmless. */
  void end(Status status) noexcept { mailbox_->post(letter_, std::move(status)); }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  Mailbox::Letter letter_;
};

void Environment::create(Napi::Env env) {
  auto environment = std::make_unique<Environment>(env);
  // After the threadsafe functions were made, so that it runs before Node.js closes them.
  check(env, napi_add_env_cleanup_hook(env, cleanUp, environment.get()));
  env.SetInstanceData<Environment>(environment.release());
}

Environment& Environment::of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

Environment::Environment(Napi::Env env)
    : executor_(Executor::shared()),
      mailbox_(std::make_shared<Mailbox>(makeThreadsafe(env, this, look))),
      again_(makeThreadsafe(env, this, lookAgain)) {}

uint32_t Environment::start(Napi::Function done, Pinned pinned, Executor::Work work, std::function<void()> settled,
                            std::shared_ptr<Executor::Client> client) {
  beginAll();
  Begun call = pend(done, pinned, std::move(settled));
  if (client == nullptr) client = client_;
  try {
    call.pending.call = executor_->submit(std::move(work), std::move(call.ended), std::move(client));
  } catch (...) {
    // Nobody has the call: its Ending says so.
  }
  return call.id;
}

uint32_t Environment::startElsewhere(Napi::Function done, Pinned pinned, Begin begin, std::function<void()> settled) {
  Begun call = pend(done, pinned, std::move(settled));
  try {
    waiting_.push_back({std::move(begin), std::move(call.ended)});
  } catch (...) {
    return call.id;  // as in start
  }
  if (waiting_.size() > 1) return call.id;
  if (beginning_ < kBeginningOfTurn) {
    beginAll();
  } else {
    mailbox_->ask();
  }
  return call.id;
}

uint32_t Environment::startNothing(Napi::Function done) {
  const Begun call = pend(done, {}, {});
  call.ended({});
  return call.id;
}

void Environment::begin(const Waiting& call) noexcept {
  const auto before = std::chrono::steady_clock::now();
  Status begun;
  try {
    begun = call.begin(call.ended);
  } catch (...) {
    begun = thrownStatus();
  }
  if (!begun.isOk()) call.ended(std::move(begun));
  beginning_ += std::chrono::steady_clock::now() - before;
}

void Environment::beginAll() noexcept {
  for (; !waiting_.empty(); waiting_.pop_front()) begin(waiting_.front());
}

void Environment::beginSome() noexcept {
  beginning_ = {};
  for (; !waiting_.empty() && beginning_ < kBeginningOfTurn; waiting_.pop_front()) begin(waiting_.front());
}

Environment::Begun Environment::pend(Napi::Function done, Pinned pinned, std::function<void()> settled) {
  const Napi::Env env = done.Env();
  Napi::Array pins = Napi::Array::New(env, pinned.size() + 1);
  uint32_t slot = 0;
  pins.Set(slot++, done);
  std::vector<std::shared_ptr<const void>> memory;
  memory.reserve(pinned.size());
  for (const Napi::Value& value : pinned) {
    pins.Set(slot++, value);
    if (auto under = pinnedMemoryUnder(value)) memory.push_back(std::move(under));
    if (auto under = backingStoreUnder(value)) memory.push_back(std::move(under));
  }
  const uint32_t id = nextId_++;
  Mailbox::Letter letter;
  letter.push_back({id, {}});
  auto ending = std::make_shared<Ending>(mailbox_);
  Ended ended = [ending](Status status) { ending->end(std::move(status)); };
  Pending made{Napi::Persistent(pins), std::move(memory), std::move(settled), {}};
  Pending& pending = pending_.emplace(id, std::move(made)).first->second;
  // From here on nothing fails.
  if (pending_.size() == 1) mailbox_->keepLoopAlive(env, true);
  ending->begin(std::move(letter));
  return {id, pending, std::move(ended)};
}

void Environment::letGoElsewhere(std::shared_ptr<const void> object) noexcept {
  try {
    if (executor_ == nullptr) return;
    executor_->submit(
        [object = std::move(object)](const Cancellation&) mutable {
          object.reset();
          return Status{};
        },
        [](const Status&) {});
  } catch (...) {
    // For want of memory: it has been let go of here.
  }
}

void Environment::keepGpu(std::shared_ptr<Gpu> gpu) { gpus_.emplace(gpu->index(), std::move(gpu)); }

std::shared_ptr<Gpu> Environment::openedGpu(int index) const {
  const auto place = gpus_.find(index);
  if (place == gpus_.end()) {
    throwFailure({StatusCode::internal, "device 'cuda:" + std::to_string(index) + "' has not been opened"});
  }
  return place->second;
}

std::shared_ptr<Backend> Environment::backend(int device) const {
  if (device >= 0) return openedGpu(device);
  return std::make_shared<CpuBackend>(*executor_, valueOrThrow(usableCpu()));
}

void Environment::cancel(uint32_t id) noexcept {
  const auto place = pending_.find(id);
  if (place != pending_.end()) cancel(place->second);
}

void Environment::cancel(const Pending& pending) noexcept {
  try {
    if (const auto call = pending.call.lock()) executor_->cancel(call);
  } catch (...) {
    // Either it runs on, or nobody has it any more and its Ending says so.
  }
}

void Environment::look(napi_env env, napi_value, void* self, void*) noexcept {
  if (env != nullptr) static_cast<Environment*>(self)->deliver(env);
}

void Environment::lookAgain(napi_env env, napi_value, void* self, void*) noexcept {
  if (env != nullptr) static_cast<Environment*>(self)->mailbox_->askNow();
}

/**
 * Begins and settles as much as one turn of the event loop is for, and looks again in the next. Only when there is
 * nothing then, does the end of a call wake the loop again.
 *
 * A threadsafe function that is called while it runs is run up to a thousand times before the loop may turn.
 * (Sixty-four endless chains of small calls held up a timer for 400 ms by that.) So another one calls it: of two that
 * call each other one runs after the loop has turned, wherever in the loop's queue they are. No JavaScript is in
 * between: setImmediate() can be faked, and then no call would settle.
 */
void Environment::deliver(Napi::Env env) noexcept {
  std::list<Finished> finished = mailbox_->take(kSettledAtOnce, !waiting_.empty());
  if (finished.empty() && waiting_.empty()) return;
  // Fails where the environment ends. What is left is given up with it.
  if (!wake(again_)) mailbox_->askNow();
  beginSome();
  for (Finished& one : finished) {
    try {
      settle(env, one);
    } catch (...) {
      // A worker that is being terminated runs no more JavaScript, and nobody is left in it to be told.
    }
  }
}

void Environment::settle(Napi::Env env, Finished& finished) {
  const Napi::HandleScope scope(env);
  auto node = pending_.extract(finished.id);
  if (pending_.empty()) mailbox_->keepLoopAlive(env, false);
  Pending& pending = node.mapped();
  Status& status = finished.status;
  if (status.isOk() && pending.settled) {
    try {
      pending.settled();
    } catch (...) {
      status = caughtStatus();
    }
  }
  const napi_value done = pending.pins.Value().Get(uint32_t{0});
  const napi_value failure = status.isOk() ? env.Undefined() : toFailure(env, status);
  pending.pins.Reset();
  pending.memory.clear();
  // Raw, so that what `done` throws becomes an uncaught exception instead of being mistaken for a termination.
  if (napi_call_function(env, env.Global(), done, 1, &failure, nullptr) == napi_pending_exception) {
    napi_value error = nullptr;
    if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_fatal_exception(env, error);
  }
}

void Environment::drain() noexcept {
  mailbox_->close();
  release(std::exchange(again_, nullptr));
  waiting_.clear();
  for (const auto& [id, pending] : pending_) cancel(pending);
  mailbox_->awaitRunning();
  pending_.clear();
  gpus_.clear();
  executor_.reset();
}

void Environment::cleanUp(void* self) noexcept { static_cast<Environment*>(self)->drain(); }

}  // namespace warpconv::binding
