#include "binding/output_memory.h"

#include <cstdint>
#include <limits>
#include <new>

#include "binding/backing_store.h"
#include "binding/checked_arguments.h"
#include "binding/failure.h"
#include "memory/recycled_memory.h"

namespace warpconv::binding {
namespace {

void* takeOrNull(size_t bytes) {
  try {
    return RecycledMemory::shared().take(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void giveBack(void* data, size_t bytes, void*) noexcept { RecycledMemory::shared().giveBack(data, bytes); }

/**
 * A byte of V8's own memory. It collects young buffers where these hold 32 MB, but asks for that only where it allocates
 * memory itself: without, it began marking the whole heap at 64 MB, for 400 MB of results seven times instead of never.
 */
void remindCollector(napi_env env) {
  napi_value byte = nullptr;
  check(env, napi_create_arraybuffer(env, 1, nullptr, &byte));
}

}  // namespace

Napi::Value allocateOutput(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto bytes = static_cast<size_t>(toInteger(info[0], "bytes", 1, std::numeric_limits<int64_t>::max()));
  if (!canMakeBuffers(env)) return env.Null();
  remindCollector(env);
  void* const data = takeOrNull(bytes);
  if (data == nullptr) return env.Null();
  return bufferOver(env, data, bytes, giveBack, nullptr);
}

void releaseIdleOutputs(const Napi::CallbackInfo&) { RecycledMemory::shared().releaseIdle(); }

}  // namespace warpconv::binding
