#include "binding/failure.h"

#include <string_view>

namespace warpconv::binding {
namespace {

napi_value toString(napi_env env, std::string_view text) {
  napi_value string = nullptr;
  check(env, napi_create_string_utf8(env, text.data(), text.size(), &string));
  return string;
}

/** Its strings are in JavaScript's memory: that none of ours is left can be said, too. */
void throwStatus(napi_env env, const Status& status) {
  napi_value error = nullptr;
  check(env,
        napi_create_error(env, toString(env, codeName(status.code())), toString(env, status.message()), &error));
  if (!status.cudaError().empty()) {
    check(env, napi_set_named_property(env, error, "cudaError", toString(env, status.cudaError())));
  }
  check(env, napi_throw(env, error));
}

}  // namespace

Status caughtStatus() noexcept {
  try {
    throw;
  } catch (Failure& failure) {
    return std::move(failure.status);
  } catch (...) {
    return thrownStatus();
  }
}

void rethrowInJavaScript(napi_env env) noexcept {
  // What fails in here fails because the environment ends: it runs no more JavaScript that could be told.
  try {
    try {
      throw;
    } catch (const Napi::Error& error) {
      error.ThrowAsJavaScriptException();
    } catch (...) {
      throwStatus(env, caughtStatus());
    }
  } catch (...) {
  }
}

Napi::Object toFailure(Napi::Env env, const Status& status) {
  Napi::Object failure = Napi::Object::New(env);
  failure.Set("code", codeName(status.code()));
  failure.Set("message", toString(env, status.message()));
  if (!status.cudaError().empty()) failure.Set("cudaError", status.cudaError());
  return failure;
}

}  // namespace warpconv::binding
