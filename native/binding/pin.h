#pragma once

#include <napi.h>

#include <memory>

#include "gpu/gpu.h"

namespace warpconv::binding {

/** The NativePin of lib/addon.ts: memory of JavaScript's that GPUs read in place. */
class Pin {
 public:
  static constexpr napi_type_tag kTag{0x5d0c8f1e7ba94263ULL, 0x8e2b41f06c7d935aULL};

  static Napi::Function define(Napi::Env env);

  explicit Pin(const Napi::CallbackInfo& info);
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  Napi::Value open(const Napi::CallbackInfo& info);
  void release(const Napi::CallbackInfo& info);

  const Napi::Env env_;
  const int device_;
  /** Keeps the memory there: it goes last. */
  Napi::ObjectReference array_;
  /** Null before it is open, and after it was released. Calls in flight share it. */
  std::shared_ptr<const PinnedMemory> memory_;
};

}  // namespace warpconv::binding
