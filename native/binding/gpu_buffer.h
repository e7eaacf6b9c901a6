#pragma once

#include <napi.h>

#include <memory>

#include "planner/backend.h"

namespace warpconv::binding {

/** The NativeGpuBuffer of lib/addon.ts: elements in a GPU's memory. */
class GpuBuffer : public Napi::ObjectWrap<GpuBuffer> {
 public:
  static Napi::Function define(Napi::Env env);
  /** The memory behind a value, or null where the value is no buffer or a disposed one. Any value may be given. */
  static std::shared_ptr<const GpuMemory> memoryOf(const Napi::Value& value);

  explicit GpuBuffer(const Napi::CallbackInfo& info);
  ~GpuBuffer() override;

 private:
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  std::shared_ptr<const GpuMemory> memoryOrThrow(Napi::Env env) const;
  void release(Napi::Env env);

  /** Shared with calls in flight, which outlive a disposed or collected buffer. */
  std::shared_ptr<const GpuMemory> memory_;
};

}  // namespace warpconv::binding
