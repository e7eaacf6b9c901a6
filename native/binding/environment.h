#pragma once

#include <napi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/executor.h"
#include "gpu/gpu.h"

namespace warpconv::binding {

/**
 * What one JavaScript environment (the main thread or a worker) owns: its calls in flight and the way their ends
 * travel back to its event loop. Nothing here is shared between environments but the executor.
 *
 * A call pins its arrays by a reference, and what allocPinned gave by a share of it. When the environment ends, in the
 * middle of calls or not, its cleanup hook takes queued calls out, asks running ones to stop and waits for them, so
 * that no executor thread touches memory that the environment is about to free.
 */
class Environment {
 public:
  /** Creates the state of `env` and registers its cleanup. */
  static void create(Napi::Env env);
  static Environment& of(Napi::Env env);

  explicit Environment(Napi::Env env);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /**
   * Runs `work` on the executor; then, on the JavaScript thread, `settled` if it succeeded, and `done` with nothing or
   * the failure. `pinned` stays reachable until then. Returns the call's id for cancel().
   */
  uint32_t start(Napi::Function done, std::initializer_list<Napi::Value> pinned, Executor::Work work,
                 std::function<void()> settled = {});
  /**
   * Begins work, and is given what to call once, on any thread, when that has ended. Where it fails itself, nothing is
   * to be called: the call ends with that failure.
   */
  using Begin = std::function<Status(std::function<void(Status)>)>;
  /**
   * The same for work that somebody else does and that this thread begins: at once, or, once it has spent its time of a
   * turn on that, when the event loop has turned, in the order of the calls. Such a call cannot be cancelled.
   */
  uint32_t startElsewhere(Napi::Function done, std::initializer_list<Napi::Value> pinned, Begin begin,
                          std::function<void()> settled);
  /** Begins what waits for its turn: before work that is to come after it, as calls that start() is given are. */
  void beginAll();
  void cancel(uint32_t id);

  Executor& executor() { return *executor_; }

  /** Makes `gpu(index)` work from now on. */
  void keepGpu(std::shared_ptr<Gpu> gpu);
  bool hasGpu(int index) const { return gpus_.contains(index); }
  /** Throws into JavaScript where the device has not been opened here. */
  Gpu& gpu(Napi::Env env, int index);
  /** The GPU of that number, or the CPU for -1, as WARPCONV_ISA lets it be used now. */
  std::shared_ptr<Backend> backend(Napi::Env env, int device);

  int64_t livePlans() const { return livePlans_; }
  void countPlan(int64_t change) { livePlans_ += change; }

 private:
  struct Pending {
    Napi::Reference<Napi::Array> pins;  // [done, pinned…]
    /** Under arrays that JavaScript might let go of in the meantime */
    std::vector<std::shared_ptr<const PinnedMemory>> memory;
    std::function<void()> settled;
    /** Null for work elsewhere */
    std::shared_ptr<Executor::Call> call;
  };
  struct Waiting {
    uint32_t id;
    Begin begin;
  };
  struct Finished {
    uint32_t id;
    Status status;
  };
  /** What executor threads share with the environment; outlives it where a thread still holds it. */
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Finished> finished;
    size_t running = 0;
    /** Somebody is going to look for finished calls, on the JavaScript thread. */
    bool awaited = false;
    napi_threadsafe_function wake = nullptr;
  };

  std::shared_ptr<Gpu> openedGpu(Napi::Env env, int index) const;
  uint32_t pend(Napi::Function done, std::initializer_list<Napi::Value> pinned, std::function<void()> settled);
  static void finish(const std::shared_ptr<Mailbox>& mailbox, uint32_t id, Status status);
  static void wake(napi_env env, napi_value, void* context, void*);
  static void cleanUp(void* self);

  void begin(const Waiting& call);
  void beginSome();
  void deliver(Napi::Env env);
  void settle(Napi::Env env, Finished finished);
  void drain();

  std::shared_ptr<Executor> executor_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::map<int, std::shared_ptr<Gpu>> gpus_;
  Napi::FunctionReference setImmediate_;
  Napi::FunctionReference deliver_;
  Napi::FunctionReference beginSome_;
  std::map<uint32_t, Pending> pending_;
  /** Work elsewhere that has not begun */
  std::deque<Waiting> waiting_;
  /** What beginning work has taken since the event loop last turned, or longer */
  std::chrono::steady_clock::duration beginning_{};
  uint32_t nextId_ = 1;
  int64_t livePlans_ = 0;
};

}  // namespace warpconv::binding
