#pragma once

#include <napi.h>

#include <memory>

#include "gpu/gpu.h"

namespace warpconv::binding {

/** Arguments: index, bytes. An ArrayBuffer over pinned memory; null where the runtime takes no foreign memory. */
Napi::Value allocatePinned(const Napi::CallbackInfo& info);

/**
 * Argument: a buffer of allocatePinned, which has no bytes from now on. Its memory goes when the last call that uses it
 * has ended.
 */
void releasePinned(const Napi::CallbackInfo& info);

/** The pinned memory that a typed array is over, or null. Any value may be given. */
std::shared_ptr<const PinnedMemory> pinnedMemoryUnder(const Napi::Value& value);

}  // namespace warpconv::binding
