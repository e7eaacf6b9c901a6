#pragma once

#include <napi.h>

#include "program/steps.h"

namespace warpconv::binding {

/** A NativeStep of lib/addon.ts. Throws into JavaScript where it is none: the compiler in lib/model made it. */
program::Step toStep(const Napi::Value& value);

}  // namespace warpconv::binding
