#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>

namespace warpconv::binding {

/**
 * A share in the memory under a typed array, so that a call goes on with it though the array's buffer is transferred away
 * and what it became is collected. A reference to the array does not hold it, and Node-API has nothing that does: this
 * is V8's own ArrayBuffer::GetBackingStore(), found when the addon is loaded and tried once. Null where the runtime is
 * not Node.js or does not export it, and for values that are no typed arrays.
 */
std::shared_ptr<const void> backingStoreUnder(const Napi::Value& value);

/** Called once, on any thread, when no ArrayBuffer and no call is over the memory any more. May not call into V8. */
using ReleaseMemory = void (*)(void* data, size_t bytes, void* hint);

/**
 * Whether bufferOver() works here: in Node.js on Linux, of the versions of V8 that it was tried with, where they take
 * memory that is not their own.
 */
bool canMakeBuffers(Napi::Env env);

/**
 * An ArrayBuffer over memory of the addon, which can be transferred as any other, and of which the collector knows as of
 * any other. (Node-API's own cannot be transferred, and is finalised when the event loop turns: a loop that waits for
 * nothing but results never gets memory back.) From here on `release` is called, also where this throws.
 */
Napi::Value bufferOver(Napi::Env env, void* data, size_t bytes, ReleaseMemory release, void* hint);

}  // namespace warpconv::binding
