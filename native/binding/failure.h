#pragma once

#include <napi.h>

#include <utility>

#include "status.h"

namespace warpconv::binding {

/** What native code throws on its way to the boundary (binding/boundary.h), where it becomes a JavaScript error. */
struct Failure {
  Status status;
};

[[noreturn]] inline void throwFailure(Status status) { throw Failure{std::move(status)}; }

inline void throwUnlessOk(Status status) {
  if (!status.isOk()) throwFailure(std::move(status));
}

template <typename T>
T valueOrThrow(Result<T> result) {
  if (!result.isOk()) throwFailure(result.status());
  return std::move(result.value());
}

/** For calls of Node-API: throws what JavaScript has thrown, or what Node-API complains of. */
inline void check(napi_env env, napi_status status) {
  if (status != napi_ok) throw Napi::Error::New(env);
}

/** What is being thrown, as a status: for a call whose promise is to hear of it. Only for a `catch` block. */
Status caughtStatus() noexcept;

/** Throws into JavaScript what is being thrown here. Only for a `catch` block. */
void rethrowInJavaScript(napi_env env) noexcept;

/** The NativeFailure of lib/addon.ts: a plain object; the TypeScript side builds the error class. */
Napi::Object toFailure(Napi::Env env, const Status& status);

}  // namespace warpconv::binding
