#pragma once

#include <napi.h>

#include "status.h"

namespace warpconv::binding {

/** The NativeFailure of lib/addon.ts: a plain object; the TypeScript side builds the error class. */
Napi::Object toFailure(Napi::Env env, const Status& status);

/** Throws the status into JavaScript as an Error that carries the failure's `code`. */
[[noreturn]] void throwFailure(Napi::Env env, const Status& status);

inline void throwUnlessOk(Napi::Env env, const Status& status) {
  if (!status.isOk()) throwFailure(env, status);
}

template <typename T>
T valueOrThrow(Napi::Env env, Result<T> result) {
  if (!result.isOk()) throwFailure(env, result.status());
  return std::move(result.value());
}

}  // namespace warpconv::binding
