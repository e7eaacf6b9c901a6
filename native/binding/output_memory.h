#pragma once

#include <napi.h>

namespace warpconv::binding {

/**
 * Argument: bytes, at least one. An ArrayBuffer of that length over memory that earlier outputs may have had, and in which
 * theirs still is; null where the runtime takes no such memory, or the system has none.
 */
Napi::Value allocateOutput(const Napi::CallbackInfo& info);

/** Returns to the system what earlier outputs have left. */
void releaseIdleOutputs(const Napi::CallbackInfo& info);

}  // namespace warpconv::binding
