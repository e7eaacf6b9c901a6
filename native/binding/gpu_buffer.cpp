#include "binding/gpu_buffer.h"

#include <utility>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"
#include "gpu/gpu.h"

namespace warpconv::binding {
namespace {

/** Tells our objects from any other, so that a forged argument is refused instead of followed. */
constexpr napi_type_tag kTag{0x8c1f4b6a52e94d0bULL, 0x9a37e05cd1284f66ULL};

/** Bytes of a typed array that holds exactly `bytes`. */
void* bytesOf(const Napi::Value& value, int64_t bytes) {
  const int64_t given = value.IsTypedArray() ? static_cast<int64_t>(value.As<Napi::TypedArray>().ByteLength()) : -1;
  if (given != bytes) {
    throwFailure(value.Env(), invalidArgument("data must be a typed array of " + std::to_string(bytes) + " bytes"));
  }
  void* data = nullptr;
  if (napi_get_typedarray_info(value.Env(), value, nullptr, nullptr, &data, nullptr, nullptr) != napi_ok) {
    throw Napi::Error::New(value.Env());
  }
  return data;
}

}  // namespace

Napi::Function GpuBuffer::define(Napi::Env env) {
  return DefineClass(env, "GpuBuffer",
                     {
                         InstanceMethod<&GpuBuffer::write>("write"),
                         InstanceMethod<&GpuBuffer::read>("read"),
                         InstanceMethod<&GpuBuffer::dispose>("dispose"),
                     });
}

std::shared_ptr<const GpuMemory> GpuBuffer::memoryOf(const Napi::Value& value) {
  if (!value.IsObject()) return nullptr;
  bool ours = false;
  if (napi_check_object_type_tag(value.Env(), value, &kTag, &ours) != napi_ok || !ours) return nullptr;
  return Unwrap(value.As<Napi::Object>())->memory_;
}

GpuBuffer::GpuBuffer(const Napi::CallbackInfo& info) : Napi::ObjectWrap<GpuBuffer>(info) {
  const Napi::Env env = info.Env();
  const int device = info[0].ToNumber().Int32Value();
  memory_ = valueOrThrow(env, Environment::of(env).gpu(env, device).allocate(info[1].ToNumber().Int64Value()));
  Napi::MemoryManagement::AdjustExternalMemory(env, memory_->bytes());
  if (napi_type_tag_object(env, info.This(), &kTag) != napi_ok) throw Napi::Error::New(env);
}

GpuBuffer::~GpuBuffer() { release(Env()); }

Napi::Value GpuBuffer::write(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto memory = memoryOrThrow(env);
  const void* from = bytesOf(info[0], memory->bytes());
  Gpu* gpu = &Environment::of(env).gpu(env, memory->device());
  const uint32_t id =
      Environment::of(env).start(toFunction(info[1], "done"), {info.This(), info[0]},
                                 [gpu, memory, from](const Cancellation&) { return gpu->upload(from, *memory); });
  return Napi::Number::New(env, id);
}

Napi::Value GpuBuffer::read(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto memory = memoryOrThrow(env);
  void* to = bytesOf(info[0], memory->bytes());
  Gpu* gpu = &Environment::of(env).gpu(env, memory->device());
  const uint32_t id =
      Environment::of(env).start(toFunction(info[1], "done"), {info.This(), info[0]},
                                 [gpu, memory, to](const Cancellation&) { return gpu->download(*memory, to); });
  return Napi::Number::New(env, id);
}

void GpuBuffer::dispose(const Napi::CallbackInfo& info) { release(info.Env()); }

std::shared_ptr<const GpuMemory> GpuBuffer::memoryOrThrow(Napi::Env env) const {
  if (!memory_) throwFailure(env, {StatusCode::disposed, "the tensor has been disposed"});
  return memory_;
}

void GpuBuffer::release(Napi::Env env) {
  if (!memory_) return;
  Napi::MemoryManagement::AdjustExternalMemory(env, -memory_->bytes());
  memory_.reset();
}

}  // namespace warpconv::binding
