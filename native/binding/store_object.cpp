#include "binding/store_object.h"

#include <limits>

#include "binding/boundary.h"
#include "binding/checked_arguments.h"
#include "binding/environment.h"
#include "binding/external_memory.h"
#include "binding/failure.h"

namespace warpconv::binding {
namespace {

using StoreClass = Class<StoreObject>;

}  // namespace

Napi::Function StoreObject::define(Napi::Env env) {
  return StoreClass::define(env, "Store",
                            {
                                StoreClass::getter<&StoreObject::bytes>("bytes"),
                                StoreClass::getter<&StoreObject::scratchBytes>("scratchBytes"),
                                StoreClass::method<&StoreObject::trim>("trim"),
                                StoreClass::method<&StoreObject::dispose>("dispose"),
                            });
}

StoreObject& StoreObject::of(const Napi::Value& value) {
  StoreObject* const store = StoreClass::unwrap(value.Env(), value);
  if (store == nullptr) throwFailure({StatusCode::internal, "a program needs a store"});
  return *store;
}

StoreObject::StoreObject(const Napi::CallbackInfo& info) : env_(info.Env()) {
  device_ = static_cast<int>(toInteger(info[0], "device", -1, std::numeric_limits<int>::max()));
  store_ = valueOrThrow(Environment::of(env_).backend(device_)->makeStore());
}

std::shared_ptr<program::Store> StoreObject::shared() const {
  if (!store_) throwFailure({StatusCode::disposed, "the session has been released"});
  return store_;
}

Napi::Value StoreObject::bytes(const Napi::CallbackInfo&) {
  return Napi::Number::New(env_, store_ ? static_cast<double>(store_->bytes()) : 0);
}

Napi::Value StoreObject::scratchBytes(const Napi::CallbackInfo&) {
  return Napi::Number::New(env_, store_ ? static_cast<double>(store_->scratchBytes()) : 0);
}

void StoreObject::trim(const Napi::CallbackInfo&) {
  if (store_) store_->trim();
  recount();
}

void StoreObject::dispose(const Napi::CallbackInfo&) { release(); }

void StoreObject::recount() noexcept {
  const int64_t bytes = store_ ? store_->bytes() : 0;
  countExternalMemory(env_, bytes - counted_);
  counted_ = bytes;
}

void StoreObject::release() noexcept {
  store_.reset();
  recount();
}

}  // namespace warpconv::binding
