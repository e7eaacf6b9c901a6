#pragma once

#include <napi.h>

#include <memory>

#include "backend/program_store.h"

namespace warpconv::binding {

/** The NativeStore of lib/addon.ts: what the programs of one session share. */
class StoreObject {
 public:
  static constexpr napi_type_tag kTag{0x5d0c94f1e2a84b73ULL, 0xa1c6702f8be5d394ULL};

  static Napi::Function define(Napi::Env env);
  /** Throws where the value is none. Lives as long as the value. */
  static StoreObject& of(const Napi::Value& value);

  explicit StoreObject(const Napi::CallbackInfo& info);
  StoreObject(const StoreObject&) = delete;
  StoreObject& operator=(const StoreObject&) = delete;
  ~StoreObject() { release(); }

  /** Throws `disposed` where it has been. */
  std::shared_ptr<program::Store> shared() const;
  int device() const { return device_; }
  /** Tells V8's collector what the store has come to hold. */
  void recount() noexcept;

 private:
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value scratchBytes(const Napi::CallbackInfo& info);
  void trim(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  void release() noexcept;

  const Napi::Env env_;
  /** The N of `cuda:N`, or -1 for the CPU */
  int device_ = -1;
  std::shared_ptr<program::Store> store_;
  int64_t counted_ = 0;
};

}  // namespace warpconv::binding
