#pragma once

#include <napi.h>

namespace warpconv::binding {

/** `filterRanges` of lib/addon.ts. */
Napi::Value filterRanges(const Napi::CallbackInfo& info);

}  // namespace warpconv::binding
