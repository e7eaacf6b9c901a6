#include "binding/failure.h"

namespace warpconv::binding {

Napi::Object toFailure(Napi::Env env, const Status& status) {
  Napi::Object failure = Napi::Object::New(env);
  failure.Set("code", codeName(status.code()));
  failure.Set("message", status.message());
  return failure;
}

void throwFailure(Napi::Env env, const Status& status) {
  Napi::Error error = Napi::Error::New(env, status.message());
  error.Set("code", codeName(status.code()));
  throw error;
}

}  // namespace warpconv::binding
