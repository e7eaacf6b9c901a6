#include "binding/pinned_buffer.h"

#include <map>
#include <mutex>

#include "binding/checked_arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"

namespace warpconv::binding {
namespace {

/** A buffer's share of its memory. */
using Share = std::shared_ptr<const PinnedMemory>;

/** The shares of buffers that have not been released, by address, of all environments. */
class Shares {
 public:
  static Shares& all() {
    static auto* const only = new Shares;
    return *only;
  }
  void add(Share* share) {
    const std::lock_guard lock(mutex_);
    byAddress_[(*share)->data()] = share;
  }
  bool contains(const void* data) {
    const std::lock_guard lock(mutex_);
    return byAddress_.contains(data);
  }
  /** Empties the share at that address. */
  void release(const void* data) {
    Share last;
    const std::lock_guard lock(mutex_);
    const auto place = byAddress_.find(data);
    if (place == byAddress_.end()) return;
    last.swap(*place->second);
    byAddress_.erase(place);
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Share*> byAddress_;
};

/** When the collector, or the end of the environment, is done with a buffer. */
void finalise(napi_env, void*, void* hint) noexcept {
  const std::unique_ptr<Share> share(static_cast<Share*>(hint));
  // Where it was released, its address may be another's by now.
  if (*share != nullptr) Shares::all().release((*share)->data());
}

}  // namespace

Napi::Value allocatePinned(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Gpu& gpu = Environment::of(env).gpu(toDevice(info[0]));
  auto share = std::make_unique<Share>(valueOrThrow(gpu.allocatePinned(toSize(info[1], "bytes"))));
  void* const data = (*share)->data();
  napi_value buffer = nullptr;
  const napi_status status = napi_create_external_arraybuffer(env, data, static_cast<size_t>((*share)->bytes()),
                                                              finalise, share.get(), &buffer);
  if (status == napi_no_external_buffers_allowed) return env.Null();
  check(env, status);
  // The buffer's own from now on: see finalise.
  Shares::all().add(share.release());
  return {env, buffer};
}

void releasePinned(const Napi::CallbackInfo& info) {
  void* data = nullptr;
  size_t bytes = 0;
  if (napi_get_arraybuffer_info(info.Env(), info[0], &data, &bytes) != napi_ok) {
    throwFailure(invalidArgument("buffer must be an ArrayBuffer of allocatePinned"));
  }
  // Its owner may have transferred it.
  if (!Shares::all().contains(data)) return;
  // Where the runtime keeps it from being detached, the collector has the last word.
  if (napi_detach_arraybuffer(info.Env(), info[0]) == napi_ok) Shares::all().release(data);
}

std::shared_ptr<const PinnedMemory> pinnedMemoryUnder(const Napi::Value& value) {
  if (pinnedBytesInUse() == 0) return nullptr;
  void* data = nullptr;
  // Fails on what is no typed array.
  const napi_status status = napi_get_typedarray_info(value.Env(), value, nullptr, nullptr, &data, nullptr, nullptr);
  return status == napi_ok ? pinnedMemoryAt(data) : nullptr;
}

}  // namespace warpconv::binding
