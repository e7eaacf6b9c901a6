#pragma once

#include <napi.h>

namespace warpconv::binding {

/**
 * Argument: a file descriptor. Another one for the same file, which no child process inherits; null where the system
 * has none, or lacks such descriptors.
 */
Napi::Value duplicateDescriptor(const Napi::CallbackInfo& info);

}  // namespace warpconv::binding
