#include <napi.h>

#include <atomic>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"
#include "binding/gpu_buffer.h"
#include "binding/pinned_buffer.h"
#include "binding/plan_object.h"
#include "binding/program_object.h"
#include "devices/cpu_info.h"
#include "gpu/gpu.h"
#include "gpu/gpu_probe.h"
#include "memory/aligned_buffer.h"
#include "memory/huge_pages.h"

namespace warpconv::binding {
namespace {

void cancel(const Napi::CallbackInfo& info) { Environment::of(info.Env()).cancel(info[0].ToNumber().Uint32Value()); }

Napi::Value cpu(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const CpuInfo& cpu = cpuInfo();
  Napi::Array features = Napi::Array::New(env);
  for (uint32_t i = 0; i < cpu.features.size(); ++i) features.Set(i, cpu.features[i]);
  Napi::Object caches = Napi::Object::New(env);
  caches.Set("l1d", static_cast<double>(cpu.caches.l1d));
  caches.Set("l2", static_cast<double>(cpu.caches.l2));
  caches.Set("l3", static_cast<double>(cpu.caches.l3));
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", cpu.name);
  object.Set("isa", cpu.isa);
  object.Set("features", features);
  object.Set("cores", cpu.cores);
  object.Set("caches", caches);
  return object;
}

Napi::Value usableIsa(const Napi::CallbackInfo& info) {
  const CpuInfo cpu = valueOrThrow(info.Env(), usableCpu());
  return Napi::String::New(info.Env(), isaName(cpu.isaLevel));
}

Napi::Value missingName(Napi::Env env, GpuMissing missing) {
  switch (missing) {
    case GpuMissing::nothing: return env.Null();
    case GpuMissing::build: return Napi::String::New(env, "build");
    case GpuMissing::driver: return Napi::String::New(env, "driver");
    case GpuMissing::device: return Napi::String::New(env, "device");
  }
  return env.Null();
}

Napi::Object toGpu(Napi::Env env, const GpuInfo& gpu) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("index", gpu.index);
  object.Set("name", gpu.name);
  object.Set("computeCapability",
             std::to_string(gpu.computeCapabilityMajor) + "." + std::to_string(gpu.computeCapabilityMinor));
  object.Set("memoryBytes", static_cast<double>(gpu.memoryBytes));
  object.Set("multiprocessors", gpu.multiprocessors);
  return object;
}

Napi::Value gpuProbe(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const GpuProbe& probe = probedGpus();
  Napi::Array gpus = Napi::Array::New(env);
  for (uint32_t i = 0; i < probe.gpus.size(); ++i) gpus.Set(i, toGpu(env, probe.gpus[i]));
  Napi::Object object = Napi::Object::New(env);
  object.Set("missing", missingName(env, probe.missing));
  object.Set("reason", probe.reason);
  object.Set("driver", probe.driver);
  object.Set("gpus", gpus);
  return object;
}

Napi::Value probe(const Napi::CallbackInfo& info) {
  const uint32_t id = Environment::of(info.Env()).start(toFunction(info[0], "done"), {}, [](const Cancellation&) {
    (void)probedGpus();
    return Status{};
  });
  return Napi::Number::New(info.Env(), id);
}

Napi::Value gpusProbed(const Napi::CallbackInfo& info) { return Napi::Boolean::New(info.Env(), areGpusProbed()); }

/** Arguments: index, done. A GPU's first use takes a good part of a second, so it happens on another thread. */
Napi::Value openGpu(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto slot = std::make_shared<std::shared_ptr<Gpu>>();
  const uint32_t id = Environment::of(env).start(
      toFunction(info[1], "done"), {},
      [index = info[0].ToNumber().Int32Value(), slot](const Cancellation&) {
        Result<std::shared_ptr<Gpu>> gpu = warpconv::openGpu(index);
        if (gpu.isOk()) *slot = std::move(gpu.value());
        return gpu.isOk() ? Status{} : gpu.status();
      },
      [env, slot] { Environment::of(env).keepGpu(std::move(*slot)); });
  return Napi::Number::New(env, id);
}

void openGpuSync(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).keepGpu(valueOrThrow(info.Env(), warpconv::openGpu(info[0].ToNumber().Int32Value())));
}

Napi::Value hasGpu(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), Environment::of(info.Env()).hasGpu(info[0].ToNumber().Int32Value()));
}

Napi::Value gpuMemory(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(gpuBytesInUse(info[0].ToNumber().Int32Value())));
}

/** Arguments: index, an object that gets what was measured, done. */
Napi::Value gpuCeilings(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Gpu* gpu = &Environment::of(env).gpu(env, info[0].ToNumber().Int32Value());
  auto slot = std::make_shared<Ceilings>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(info[1].As<Napi::Object>()));
  const uint32_t id = Environment::of(env).start(
      toFunction(info[2], "done"), {},
      [gpu, slot](const Cancellation&) {
        Result<Ceilings> measured = gpu->ceilings();
        if (measured.isOk()) *slot = measured.value();
        return measured.isOk() ? Status{} : measured.status();
      },
      [slot, report] {
        Napi::Object into = report->Value();
        into.Set("flopsPerSecond", slot->flopsPerSecond);
        into.Set("bytesPerSecond", slot->bytesPerSecond);
        into.Set("eventMilliseconds", slot->eventMilliseconds);
      });
  return Napi::Number::New(env, id);
}

Napi::Value memory(const Napi::CallbackInfo& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("cpu", static_cast<double>(AlignedBuffer::bytesInUse()));
  object.Set("pinned", static_cast<double>(pinnedBytesInUse()));
  object.Set("plans", static_cast<double>(Environment::of(info.Env()).livePlans()));
  return object;
}

void adviseHugePages(const Napi::CallbackInfo& info) {
  const Napi::Float32Array array = info[0].As<Napi::Float32Array>();
  warpconv::adviseHugePages(const_cast<float*>(array.Data()), array.ByteLength());
}

Napi::Value threads(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), Environment::of(info.Env()).executor().threads());
}

void setThreads(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).executor().setThreads(info[0].ToNumber().Uint32Value());
}

Napi::Value firstFallback(const Napi::CallbackInfo& info) {
  static std::atomic<bool> happened{false};
  return Napi::Boolean::New(info.Env(), !happened.exchange(true));
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  Environment::create(env);
  exports.Set("Plan", PlanObject::define(env));
  exports.Set("Program", ProgramObject::define(env));
  exports.Set("cancel", Napi::Function::New<cancel>(env, "cancel"));
  exports.Set("cpu", Napi::Function::New<cpu>(env, "cpu"));
  exports.Set("usableIsa", Napi::Function::New<usableIsa>(env, "usableIsa"));
  exports.Set("gpuProbe", Napi::Function::New<gpuProbe>(env, "gpuProbe"));
  exports.Set("GpuBuffer", GpuBuffer::define(env));
  exports.Set("probeGpus", Napi::Function::New<probe>(env, "probeGpus"));
  exports.Set("gpusProbed", Napi::Function::New<gpusProbed>(env, "gpusProbed"));
  exports.Set("openGpu", Napi::Function::New<openGpu>(env, "openGpu"));
  exports.Set("openGpuSync", Napi::Function::New<openGpuSync>(env, "openGpuSync"));
  exports.Set("hasGpu", Napi::Function::New<hasGpu>(env, "hasGpu"));
  exports.Set("gpuMemory", Napi::Function::New<gpuMemory>(env, "gpuMemory"));
  exports.Set("allocatePinned", Napi::Function::New<allocatePinned>(env, "allocatePinned"));
  exports.Set("releasePinned", Napi::Function::New<releasePinned>(env, "releasePinned"));
  exports.Set("gpuCeilings", Napi::Function::New<gpuCeilings>(env, "gpuCeilings"));
  exports.Set("memory", Napi::Function::New<memory>(env, "memory"));
  exports.Set("adviseHugePages", Napi::Function::New<adviseHugePages>(env, "adviseHugePages"));
  exports.Set("threads", Napi::Function::New<threads>(env, "threads"));
  exports.Set("setThreads", Napi::Function::New<setThreads>(env, "setThreads"));
  exports.Set("firstFallback", Napi::Function::New<firstFallback>(env, "firstFallback"));
  return exports;
}

NODE_API_MODULE(warpconv, initialise)

}  // namespace
}  // namespace warpconv::binding
