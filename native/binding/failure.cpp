#include "binding/failure.h"

namespace warpconv::binding {

Napi::Object toFailure(Napi::Env env, const Status& status) {
  Napi::Object failure = Napi::Object::New(env);
  failure.Set("code", codeName(status.code()));
  failure.Set("message", status.message());
  if (!status.cudaError().empty()) failure.Set("cudaError", status.cudaError());
  return failure;
}

void throwFailure(Napi::Env env, const Status& status) {
  Napi::Error error = Napi::Error::New(env, status.message());
  error.Set("code", codeName(status.code()));
  if (!status.cudaError().empty()) error.Set("cudaError", Napi::String::New(env, status.cudaError()));
  throw error;
}

}  // namespace warpconv::binding
