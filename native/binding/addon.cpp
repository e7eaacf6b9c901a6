#include <napi.h>

#include <atomic>
#include <limits>

#include "binding/boundary.h"
#include "binding/checked_arguments.h"
#include "binding/descriptor.h"
#include "binding/environment.h"
#include "binding/failure.h"
#include "binding/filter_ranges_function.h"
#include "binding/gpu_buffer.h"
#include "binding/output_memory.h"
#include "binding/pin.h"
#include "binding/pinned_buffer.h"
#include "binding/plan_object.h"
#include "binding/program_object.h"
#include "binding/store_object.h"
#include "devices/cpu_info.h"
#include "gpu/gpu.h"
#include "gpu/gpu_probe.h"
#include "memory/aligned_buffer.h"
#include "memory/huge_pages.h"
#include "memory/recycled_memory.h"
#include "portability/keep_loaded.h"

namespace warpconv::binding {
namespace {

void cancel(const Napi::CallbackInfo& info) {
  const int64_t id = toInteger(info[0], "call", 0, std::numeric_limits<uint32_t>::max());
  Environment::of(info.Env()).cancel(static_cast<uint32_t>(id));
}

/** Argument: done. */
Napi::Value nextTurn(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), Environment::of(info.Env()).startNothing(toFunction(info[0], "done")));
}

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
  const CpuInfo cpu = valueOrThrow(usableCpu());
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
      [index = toDevice(info[0]), slot](const Cancellation&) {
        Result<std::shared_ptr<Gpu>> gpu = warpconv::openGpu(index);
        if (gpu.isOk()) *slot = std::move(gpu.value());
        return gpu.isOk() ? Status{} : gpu.status();
      },
      [env, slot] { Environment::of(env).keepGpu(std::move(*slot)); });
  return Napi::Number::New(env, id);
}

void openGpuSync(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).keepGpu(valueOrThrow(warpconv::openGpu(toDevice(info[0]))));
}

Napi::Value hasGpu(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), Environment::of(info.Env()).hasGpu(toDevice(info[0])));
}

Napi::Value gpuMemory(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(gpuBytesInUse(toDevice(info[0]))));
}

/** Arguments: index, an object that gets what was measured, done. */
Napi::Value gpuCeilings(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Gpu* gpu = &Environment::of(env).gpu(toDevice(info[0]));
  auto slot = std::make_shared<Ceilings>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(toObject(info[1], "report")));
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
  object.Set("idle", static_cast<double>(RecycledMemory::shared().idleBytes()));
  object.Set("pinned", static_cast<double>(pinnedBytesInUse()));
  object.Set("plans", static_cast<double>(Environment::of(info.Env()).livePlans()));
  return object;
}

void adviseHugePages(const Napi::CallbackInfo& info) {
  const auto [data, bytes] = toBytes(info[0], "array");
  warpconv::adviseHugePages(data, static_cast<size_t>(bytes));
}

Napi::Value threads(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), Environment::of(info.Env()).executor().threads());
}

void setThreads(const Napi::CallbackInfo& info) {
  constexpr int64_t kMostThreads = 1024;
  const int64_t count = toInteger(info[0], "count", 1, kMostThreads);
  Environment::of(info.Env()).executor().setThreads(static_cast<unsigned>(count));
}

Napi::Value firstFallback(const Napi::CallbackInfo& info) {
  static std::atomic<bool> happened{false};
  return Napi::Boolean::New(info.Env(), !happened.exchange(true));
}

void initialise(Napi::Env env, Napi::Object exports) {
  keepLoaded();
  Environment::create(env);
  exports.Set("version", WARPCONV_VERSION);
  exports.Set("Plan", PlanObject::define(env));
  exportFunction<candidatesOf>(exports, "candidates");
  exports.Set("Program", ProgramObject::define(env));
  exportFunction<filterRanges>(exports, "filterRanges");
  exportFunction<cancel>(exports, "cancel");
  exportFunction<nextTurn>(exports, "nextTurn");
  exportFunction<cpu>(exports, "cpu");
  exportFunction<usableIsa>(exports, "usableIsa");
  exportFunction<gpuProbe>(exports, "gpuProbe");
  exports.Set("Store", StoreObject::define(env));
  exports.Set("GpuBuffer", GpuBuffer::define(env));
  exports.Set("Pin", Pin::define(env));
  exportFunction<probe>(exports, "probeGpus");
  exportFunction<gpusProbed>(exports, "gpusProbed");
  exportFunction<openGpu>(exports, "openGpu");
  exportFunction<openGpuSync>(exports, "openGpuSync");
  exportFunction<hasGpu>(exports, "hasGpu");
  exportFunction<gpuMemory>(exports, "gpuMemory");
  exportFunction<allocatePinned>(exports, "allocatePinned");
  exportFunction<releasePinned>(exports, "releasePinned");
  exportFunction<duplicateDescriptor>(exports, "duplicateDescriptor");
  exportFunction<allocateOutput>(exports, "allocateOutput");
  exportFunction<releaseIdleOutputs>(exports, "releaseIdleOutputs");
  exportFunction<gpuCeilings>(exports, "gpuCeilings");
  exportFunction<memory>(exports, "memory");
  exportFunction<adviseHugePages>(exports, "adviseHugePages");
  exportFunction<threads>(exports, "threads");
  exportFunction<setThreads>(exports, "setThreads");
  exportFunction<firstFallback>(exports, "firstFallback");
}

}  // namespace
}  // namespace warpconv::binding

NAPI_MODULE_INIT() {
  return warpconv::binding::atBoundary(env, [=]() -> napi_value {
    warpconv::binding::initialise(env, Napi::Object(env, exports));
    return exports;
  });
}
