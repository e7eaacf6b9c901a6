#include "binding/gpu_buffer.h"

#include <array>
#include <string>
#include <utility>

#include "binding/boundary.h"
#include "binding/checked_arguments.h"
#include "binding/environment.h"
#include "binding/external_memory.h"
#include "binding/failure.h"
#include "gpu/gpu.h"

namespace warpconv::binding {
namespace {

using BufferClass = Class<GpuBuffer>;

/** Of a typed array that holds exactly `needed` bytes. */
void* dataOf(const Napi::Value& value, int64_t needed) {
  const auto [data, bytes] = toBytes(value, "data");
  if (bytes != needed) {
    throwFailure(invalidArgument("data must be a typed array of " + std::to_string(needed) + " bytes"));
  }
  return data;
}

}  // namespace

Napi::Function GpuBuffer::define(Napi::Env env) {
  return BufferClass::define(env, "GpuBuffer",
                             {
                                 BufferClass::method<&GpuBuffer::write>("write"),
                                 BufferClass::method<&GpuBuffer::read>("read"),
                                 BufferClass::method<&GpuBuffer::dispose>("dispose"),
                             });
}

std::shared_ptr<const GpuMemory> GpuBuffer::memoryOf(const Napi::Value& value) {
  const GpuBuffer* const buffer = BufferClass::unwrap(value.Env(), value);
  return buffer == nullptr ? nullptr : buffer->memory_;
}

GpuBuffer::GpuBuffer(const Napi::CallbackInfo& info) : env_(info.Env()) {
  Gpu& gpu = Environment::of(env_).gpu(toDevice(info[0]));
  memory_ = valueOrThrow(gpu.allocate(toSize(info[1], "bytes")));
  countExternalMemory(env_, memory_->bytes());
}

Napi::Value GpuBuffer::write(const Napi::CallbackInfo& info) {
  auto memory = memoryOrThrow();
  const void* from = dataOf(info[0], memory->bytes());
  Environment& environment = Environment::of(env_);
  Gpu* gpu = &environment.gpu(memory->device());
  const uint32_t id =
      environment.start(toFunction(info[1], "done"), std::array{info.This(), info[0]},
                        [gpu, memory, from](const Cancellation&) { return gpu->upload(from, *memory); });
  return Napi::Number::New(env_, id);
}

Napi::Value GpuBuffer::read(const Napi::CallbackInfo& info) {
  auto memory = memoryOrThrow();
  void* to = dataOf(info[0], memory->bytes());
  Environment& environment = Environment::of(env_);
  Gpu* gpu = &environment.gpu(memory->device());
  const uint32_t id =
      environment.start(toFunction(info[1], "done"), std::array{info.This(), info[0]},
                        [gpu, memory, to](const Cancellation&) { return gpu->download(*memory, to); });
  return Napi::Number::New(env_, id);
}

void GpuBuffer::dispose(const Napi::CallbackInfo&) { release(); }

std::shared_ptr<const GpuMemory> GpuBuffer::memoryOrThrow() const {
  if (!memory_) throwFailure({StatusCode::disposed, "the tensor has been disposed"});
  return memory_;
}

void GpuBuffer::release() noexcept {
  if (!memory_) return;
  countExternalMemory(env_, -memory_->bytes());
  memory_.reset();
}

}  // namespace warpconv::binding
