#include "binding/environment.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

void check(napi_env env, napi_status status) {
  if (status != napi_ok) throw Napi::Error::New(env);
}

}  // namespace

void Environment::create(Napi::Env env) {
  auto environment = std::make_unique<Environment>(env);
  check(env, napi_add_env_cleanup_hook(env, cleanUp, environment.get()));
  env.SetInstanceData<Environment>(environment.release());
}

Environment& Environment::of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

Environment::Environment(Napi::Env env) : executor_(Executor::shared()) {
  const Napi::String name = Napi::String::New(env, "warpconv");
  check(env, napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, wake,
                                             &mailbox_->wake));
  check(env, napi_unref_threadsafe_function(env, mailbox_->wake));
  setImmediate_ = Napi::Persistent(env.Global().Get("setImmediate").As<Napi::Function>());
  deliver_ = Napi::Persistent(Napi::Function::New(
      env, [this](const Napi::CallbackInfo& info) { deliver(info.Env()); }, "deliver"));
  beginSome_ =
      Napi::Persistent(Napi::Function::New(env, [this](const Napi::CallbackInfo&) { beginSome(); }, "beginSome"));
}

uint32_t Environment::start(Napi::Function done, std::initializer_list<Napi::Value> pinned, Executor::Work work,
                            std::function<void()> settled) {
  beginAll();
  const uint32_t id = pend(done, pinned, std::move(settled));
  pending_[id].call = executor_->submit(
      std::move(work), [mailbox = mailbox_, id](Status status) { finish(mailbox, id, std::move(status)); });
  return id;
}

uint32_t Environment::startElsewhere(Napi::Function done, std::initializer_list<Napi::Value> pinned, Begin begin,
                                     std::function<void()> settled) {
  const uint32_t id = pend(done, pinned, std::move(settled));
  const bool isFirst = waiting_.empty();
  waiting_.push_back({id, std::move(begin)});
  if (!isFirst) return id;
  if (beginning_ < kBeginningOfTurn) {
    beginAll();
  } else {
    setImmediate_.Call({beginSome_.Value()});
  }
  return id;
}

void Environment::begin(const Waiting& call) {
  const auto before = std::chrono::steady_clock::now();
  Status begun = call.begin(
      [mailbox = mailbox_, id = call.id](Status status) { finish(mailbox, id, std::move(status)); });
  if (!begun.isOk()) finish(mailbox_, call.id, std::move(begun));
  beginning_ += std::chrono::steady_clock::now() - before;
}

void Environment::beginAll() {
  for (; !waiting_.empty(); waiting_.pop_front()) begin(waiting_.front());
}

/** In a turn of its own. */
void Environment::beginSome() {
  beginning_ = {};
  for (; !waiting_.empty() && beginning_ < kBeginningOfTurn; waiting_.pop_front()) begin(waiting_.front());
  try {
    if (!waiting_.empty()) setImmediate_.Call({beginSome_.Value()});
  } catch (const Napi::Error&) {
    // As in deliver: what waits is given up with its worker.
  }
}

uint32_t Environment::pend(Napi::Function done, std::initializer_list<Napi::Value> pinned,
                           std::function<void()> settled) {
  const Napi::Env env = done.Env();
  Napi::Array pins = Napi::Array::New(env, pinned.size() + 1);
  uint32_t slot = 0;
  pins.Set(slot++, done);
  std::vector<std::shared_ptr<const PinnedMemory>> memory;
  for (const Napi::Value& value : pinned) {
    pins.Set(slot++, value);
    if (auto under = pinnedMemoryUnder(value)) memory.push_back(std::move(under));
  }

  // The event loop stays alive as long as a call is in flight.
  if (pending_.empty()) check(env, napi_ref_threadsafe_function(env, mailbox_->wake));
  const uint32_t id = nextId_++;
  Pending& pending = pending_[id];
  pending.pins = Napi::Persistent(pins);
  pending.memory = std::move(memory);
  pending.settled = std::move(settled);
  const std::lock_guard lock(mailbox_->mutex);
  ++mailbox_->running;
  return id;
}

void Environment::keepGpu(std::shared_ptr<Gpu> gpu) { gpus_.emplace(gpu->index(), std::move(gpu)); }

std::shared_ptr<Gpu> Environment::openedGpu(Napi::Env env, int index) const {
  const auto place = gpus_.find(index);
  if (place == gpus_.end()) {
    throwFailure(env, {StatusCode::internal, "device 'cuda:" + std::to_string(index) + "' has not been opened"});
  }
  return place->second;
}

Gpu& Environment::gpu(Napi::Env env, int index) { return *openedGpu(env, index); }

std::shared_ptr<Backend> Environment::backend(Napi::Env env, int device) {
  if (device >= 0) return openedGpu(env, device);
  return std::make_shared<CpuBackend>(*executor_, valueOrThrow(env, usableCpu()));
}

void Environment::cancel(uint32_t id) {
  const auto place = pending_.find(id);
  if (place == pending_.end()) return;
  const std::shared_ptr<Executor::Call> call = place->second.call;
  if (call != nullptr) executor_->cancel(call);
}

void Environment::finish(const std::shared_ptr<Mailbox>& mailbox, uint32_t id, Status status) {
  const std::lock_guard lock(mailbox->mutex);
  mailbox->finished.push_back({id, std::move(status)});
  --mailbox->running;
  // Null once the environment has begun to end; then nobody is left to be told.
  if (mailbox->wake != nullptr && !mailbox->awaited) {
    mailbox->awaited = true;
    napi_call_threadsafe_function(mailbox->wake, nullptr, napi_tsfn_nonblocking);
  }
  mailbox->changed.notify_all();
}

void Environment::wake(napi_env env, napi_value, void* context, void*) {
  if (env != nullptr) static_cast<Environment*>(context)->deliver(env);
}

/**
 * Settles what has finished, as much as one turn of the event loop is for, and looks again in the next. Only when
 * there is nothing then, does finish() wake the loop again: a threadsafe function that is called while it runs is run
 * up to a thousand times before the loop may turn. (Sixty-four endless chains of small calls held up a timer for 400 ms
 * by that.)
 */
void Environment::deliver(Napi::Env env) {
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mailbox_->mutex);
    auto& all = mailbox_->finished;
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kSettledAtOnce));
    std::move(all.begin(), end, std::back_inserter(finished));
    all.erase(all.begin(), end);
    mailbox_->awaited = !finished.empty();
  }
  if (finished.empty()) return;
  beginning_ = {};
  try {
    setImmediate_.Call({deliver_.Value()});
    for (Finished& call : finished) settle(env, std::move(call));
  } catch (const Napi::Error&) {
    // A worker that is being terminated runs no more JavaScript, and nobody is left in it to be told.
  }
}

void Environment::settle(Napi::Env env, Finished finished) {
  const Napi::HandleScope scope(env);
  auto node = pending_.extract(finished.id);
  if (pending_.empty()) napi_unref_threadsafe_function(env, mailbox_->wake);
  Pending& pending = node.mapped();
  if (finished.status.isOk() && pending.settled) pending.settled();
  const napi_value done = pending.pins.Value().Get(uint32_t{0});
  const napi_value failure = finished.status.isOk() ? env.Undefined() : toFailure(env, finished.status);
  pending.pins.Reset();
  pending.memory.clear();
  // Raw, so that what `done` throws becomes an uncaught exception instead of being mistaken for a termination.
  if (napi_call_function(env, env.Global(), done, 1, &failure, nullptr) == napi_pending_exception) {
    napi_value error = nullptr;
    if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_fatal_exception(env, error);
  }
}

void Environment::drain() {
  // Copied first: cancelling a queued call ends it on this thread.
  std::vector<std::shared_ptr<Executor::Call>> calls;
  for (const auto& [id, pending] : pending_) {
    if (pending.call != nullptr) calls.push_back(pending.call);
  }
  napi_threadsafe_function wake = nullptr;
  {
    const std::lock_guard lock(mailbox_->mutex);
    wake = std::exchange(mailbox_->wake, nullptr);
    mailbox_->running -= waiting_.size();
  }
  waiting_.clear();
  for (const auto& call : calls) executor_->cancel(call);
  {
    std::unique_lock lock(mailbox_->mutex);
    mailbox_->changed.wait(lock, [this] { return mailbox_->running == 0; });
  }
  pending_.clear();
  gpus_.clear();
  executor_.reset();
  napi_release_threadsafe_function(wake, napi_tsfn_abort);
}

void Environment::cleanUp(void* self) { static_cast<Environment*>(self)->drain(); }

}  // namespace warpconv::binding
