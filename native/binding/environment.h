#pragma once

#include <napi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "executor/executor.h"
#include "gpu/gpu.h"

namespace warpconv::binding {

/**
 * What one JavaScript environment (the main thread or a worker) owns: its calls in flight and the way their ends
 * travel back to its event loop. Nothing here is shared between environments but the executor.
 *
 * A call pins its arrays by a reference, and the memory under them by a share of it. When the environment ends, in the
 * middle of calls or not, its cleanup hook takes queued calls out, asks running ones to stop and waits for them, so
 * that no executor thread touches memory that the environment is about to free.
 *
 * Whatever a call's end needs is allocated when the call begins. Once start() and its like have returned, `done` is
 * called once, whatever fails; where they throw, it never is, and nothing is left of the call.
 */
class Environment {
 public:
  /** Creates the state of `env` and registers its cleanup. */
  static void create(Napi::Env env);
  static Environment& of(Napi::Env env);

  explicit Environment(Napi::Env env);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /** Values that a call uses */
  using Pinned = std::span<const Napi::Value>;
  /**
   * Runs `work` on the executor; then, on the JavaScript thread, `settled` if it succeeded, and `done` with nothing or
   * the failure. `pinned` stays reachable until then. Calls of one client keep their order and take turns with those of
   * others; all that name none are one client's. Returns the call's id for cancel().
   */
  uint32_t start(Napi::Function done, Pinned pinned, Executor::Work work, std::function<void()> settled = {},
                 std::shared_ptr<Executor::Client> client = nullptr);
  /**
   * Begins work, and is given what to call once, on any thread, when that has ended. Where it fails itself, nothing is
   * to be called: the call ends with that failure.
   */
  using Begin = std::function<Status(std::function<void(Status)>)>;
  /**
   * The same for work that somebody else does and that this thread begins: at once, or, once it has spent its time of a
   * turn on that, when the event loop has turned, in the order of the calls. Such a call cannot be cancelled.
   */
  uint32_t startElsewhere(Napi::Function done, Pinned pinned, Begin begin, std::function<void()> settled);
  /** A call that has nothing to do: `done` is called when the event loop has turned. No JavaScript can fake that. */
  uint32_t startNothing(Napi::Function done);
  /** Begins what waits for its turn: before work that is to come after it, as calls that start() is given are. */
  void beginAll() noexcept;
  void cancel(uint32_t id) noexcept;

  /** Lets go of what takes long to be destroyed, on another thread where that can be. */
  void letGoElsewhere(std::shared_ptr<const void> object) noexcept;

  Executor& executor() { return *executor_; }

  /** Makes `gpu(index)` work from now on. */
  void keepGpu(std::shared_ptr<Gpu> gpu);
  bool hasGpu(int index) const { return gpus_.contains(index); }
  /** Throws a Failure where the device has not been opened here. */
  Gpu& gpu(int index) const { return *openedGpu(index); }
  /** The GPU of that number, or the CPU for -1, as WARPCONV_ISA lets it be used now. */
  std::shared_ptr<Backend> backend(int device) const;

  int64_t livePlans() const { return livePlans_; }
  void countPlan(int64_t change) { livePlans_ += change; }

 private:
  struct Pending {
    Napi::Reference<Napi::Array> pins;  // [done, pinned…]
    /** Under arrays that JavaScript might let go of, or transfer away, in the meantime */
    std::vector<std::shared_ptr<const void>> memory;
    std::function<void()> settled;
    /** None for work elsewhere. The executor's alone, so that a call that it loses ends: see Ending. */
    std::weak_ptr<Executor::Call> call;
  };
  /** What is called once, on any thread, when a call has ended */
  using Ended = std::function<void(Status)>;
  struct Begun {
    uint32_t id;
    Pending& pending;
    Ended ended;
  };
  struct Waiting {
    Begin begin;
    Ended ended;
  };
  struct Finished {
    uint32_t id;
    Status status;
  };
  class Mailbox;
  class Ending;

  std::shared_ptr<Gpu> openedGpu(int index) const;
  Begun pend(Napi::Function done, Pinned pinned, std::function<void()> settled);
  void begin(const Waiting& call) noexcept;
  void beginSome() noexcept;
  void cancel(const Pending& pending) noexcept;

  static void look(napi_env env, napi_value, void* self, void*) noexcept;
  static void lookAgain(napi_env env, napi_value, void* self, void*) noexcept;
  void deliver(Napi::Env env) noexcept;
  void settle(Napi::Env env, Finished& finished);

  static void cleanUp(void* self) noexcept;
  void drain() noexcept;

  std::shared_ptr<Executor> executor_;
  const std::shared_ptr<Executor::Client> client_ = std::make_shared<Executor::Client>();
  std::shared_ptr<Mailbox> mailbox_;
  /** Runs lookAgain(); for this thread alone */
  napi_threadsafe_function again_ = nullptr;
  std::map<int, std::shared_ptr<Gpu>> gpus_;
  std::map<uint32_t, Pending> pending_;
  /** Work elsewhere that has not begun */
  std::deque<Waiting> waiting_;
  /** What beginning work has taken since the event loop last turned, or longer */
  std::chrono::steady_clock::duration beginning_{};
  uint32_t nextId_ = 1;
  int64_t livePlans_ = 0;
};

}  // namespace warpconv::binding
