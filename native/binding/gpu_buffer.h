#pragma once

#include <napi.h>

#include <memory>

#include "memory/gpu_memory.h"

namespace warpconv::binding {

/** The NativeGpuBuffer of lib/addon.ts: elements in a GPU's memory. */
class GpuBuffer {
 public:
  static constexpr napi_type_tag kTag{0x8c1f4b6a52e94d0bULL, 0x9a37e05cd1284f66ULL};

  static Napi::Function define(Napi::Env env);
  /** The memory behind a value, or null where the value is no buffer or a disposed one. Any value may be given. */
  static std::shared_ptr<const GpuMemory> memoryOf(const Napi::Value& value);

  explicit GpuBuffer(const Napi::CallbackInfo& info);
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  ~GpuBuffer() { release(); }

 private:
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  std::shared_ptr<const GpuMemory> memoryOrThrow() const;
  void release() noexcept;

  const Napi::Env env_;
  /** Shared with calls in flight, which outlive a disposed or collected buffer. */
  std::shared_ptr<const GpuMemory> memory_;
};

}  // namespace warpconv::binding
