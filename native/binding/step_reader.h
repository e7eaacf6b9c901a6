#pragma once

#include <napi.h>

#include "program/steps.h"

namespace warpconv::binding {

/** A `Step<NativeBuffer>` of lib/model/steps.ts. Throws into JavaScript where it is none: the compiler in lib/model made it. */
program::Step toStep(const Napi::Value& value);

}  // namespace warpconv::binding
