#pragma once

#include <napi.h>

#include "gpu/contest_types.h"

namespace warpconv::binding {

/** A NativeContest of lib/addon.ts, without its tensors. */
Contest toContest(const Napi::Value& value);

/** Fills `into`, a NativeContestReport. */
void fillReport(Napi::Env env, const ContestReport& report, Napi::Object into);

}  // namespace warpconv::binding
