#include "binding/program_object.h"

#include <string>
#include <utility>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"
#include "binding/gpu_buffer.h"
#include "binding/plan_object.h"
#include "binding/step_reader.h"
#include "gpu/gpu.h"
#include "program/verify.h"

namespace warpconv::binding {
namespace {

/** The bytes of any typed array, and their number. */
std::pair<void*, int64_t> bytesOf(const Napi::Value& value, const char* name) {
  if (!value.IsTypedArray()) {
    throwFailure(value.Env(), invalidArgument(std::string(name) + " must be typed arrays"));
  }
  const Napi::TypedArray array = value.As<Napi::TypedArray>();
  auto* start = static_cast<std::byte*>(array.ArrayBuffer().Data()) + array.ByteOffset();
  return {start, static_cast<int64_t>(array.ByteLength())};
}

std::vector<int64_t> toSizes(const Napi::Value& value, const char* name) {
  const Napi::Array list = value.As<Napi::Array>();
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < list.Length(); ++i) sizes.push_back(toInteger(list.Get(i), name));
  return sizes;
}

/** As many values as there are sizes. */
Napi::Array listOf(const Napi::Value& value, size_t count, const char* name) {
  const Napi::Array list = value.As<Napi::Array>();
  if (list.Length() != count) {
    throwFailure(value.Env(), {StatusCode::internal, std::string(name) + " are not as many as the program's"});
  }
  return list;
}

void requireBytes(Napi::Env env, int64_t bytes, int64_t needed, const char* name) {
  if (bytes == needed) return;
  throwFailure(env, {StatusCode::internal, std::string("one of the ") + name + " has " + std::to_string(bytes) +
                                               " bytes; the program needs " + std::to_string(needed)});
}

}  // namespace

struct ProgramObject::Run {
  std::shared_ptr<const program::PreparedProgram> prepared;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  /** For each input its memory on the GPU, or null */
  std::vector<std::shared_ptr<const GpuMemory>> residentInputs;
  /** Under arrays that JavaScript might let go of in the meantime */
  std::vector<std::shared_ptr<const PinnedMemory>> pinned;

  void* arrayOf(const Napi::Value& value, int64_t needed, const char* name) {
    const auto [address, bytes] = bytesOf(value, name);
    requireBytes(value.Env(), bytes, needed, name);
    if (auto under = pinnedMemoryAt(address)) pinned.push_back(std::move(under));
    return address;
  }

  /** `device` is the program's, by its number. */
  void addInput(const Napi::Value& value, int64_t needed, int device) {
    auto memory = value.IsTypedArray() ? nullptr : GpuBuffer::memoryOf(value);
    if (memory != nullptr && (memory->device() != device || memory->bytes() != needed)) {
      throwFailure(value.Env(), invalidArgument("an input has " + std::to_string(memory->bytes()) + " bytes on 'cuda:" +
                                                std::to_string(memory->device()) + "'; the network needs " +
                                                std::to_string(needed) + " on the session's device"));
    }
    if (memory == nullptr && !value.IsTypedArray()) {
      throwFailure(value.Env(), invalidArgument("an input on a GPU was disposed before the run began"));
    }
    inputs.push_back(memory == nullptr ? arrayOf(value, needed, "inputs") : nullptr);
    residentInputs.push_back(std::move(memory));
  }

  Status operator()(const Cancellation* cancellation, std::vector<double>* milliseconds) const {
    return prepared->run({inputs, outputs, residentInputs}, cancellation, milliseconds);
  }
};

Napi::Function ProgramObject::define(Napi::Env env) {
  return DefineClass(env, "Program",
                     {
                         InstanceMethod<&ProgramObject::prepare>("prepare"),
                         InstanceMethod<&ProgramObject::run>("run"),
                         InstanceMethod<&ProgramObject::runSync>("runSync"),
                         InstanceMethod<&ProgramObject::choices>("choices"),
                         InstanceAccessor<&ProgramObject::bytes>("bytes"),
                         InstanceMethod<&ProgramObject::dispose>("dispose"),
                     });
}

ProgramObject::ProgramObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ProgramObject>(info) {
  const Napi::Env env = info.Env();
  const Napi::Object spec = toObject(info[0], "program");
  device_ = static_cast<int>(toInteger(spec.Get("device"), "program.device"));
  backend_ = Environment::of(env).backend(env, device_);
  const Napi::Array steps = spec.Get("steps").As<Napi::Array>();
  for (uint32_t i = 0; i < steps.Length(); ++i) {
    const Napi::HandleScope scope(env);
    spec_.steps.push_back(toStep(steps.Get(i)));
  }
  const Napi::Array constants = spec.Get("constants").As<Napi::Array>();
  for (uint32_t i = 0; i < constants.Length(); ++i) {
    const auto [address, bytes] = bytesOf(constants.Get(i), "program.constants");
    spec_.constants.push_back(address);
    spec_.constantBytes.push_back(bytes);
  }
  constants_ = Napi::Persistent(constants);
  spec_.arenaBytes = toInteger(spec.Get("arenaBytes"), "program.arenaBytes");
  inputBytes_ = spec_.inputBytes = toSizes(spec.Get("inputBytes"), "program.inputBytes");
  outputBytes_ = spec_.outputBytes = toSizes(spec.Get("outputBytes"), "program.outputBytes");
  throwUnlessOk(env, program::verify(spec_));
}

ProgramObject::~ProgramObject() { release(Env()); }

Napi::Value ProgramObject::prepare(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto slot = std::make_shared<std::shared_ptr<const program::PreparedProgram>>();
  const uint32_t id = Environment::of(env).start(
      toFunction(info[0], "done"), {info.This()},
      [backend = backend_, spec = std::move(spec_), slot](const Cancellation&) mutable {
        auto prepared = backend->prepareProgram(std::move(spec));
        if (prepared.isOk()) *slot = std::move(prepared.value());
        return prepared.isOk() ? Status{} : prepared.status();
      },
      [this, env, slot] { keep(env, std::move(*slot)); });
  return Napi::Number::New(env, id);
}

/** Two arguments: inputs, outputs. */
ProgramObject::Run ProgramObject::runFrom(const Napi::CallbackInfo& info) const {
  if (!prepared_) throwFailure(info.Env(), {StatusCode::disposed, "the session has been released"});
  Run run{prepared_, {}, {}, {}, {}};
  const Napi::Array inputs = listOf(info[0], inputBytes_.size(), "inputs");
  for (uint32_t i = 0; i < inputs.Length(); ++i) run.addInput(inputs.Get(i), inputBytes_[i], device_);
  const Napi::Array outputs = listOf(info[1], outputBytes_.size(), "outputs");
  for (uint32_t i = 0; i < outputs.Length(); ++i) {
    run.outputs.push_back(run.arrayOf(outputs.Get(i), outputBytes_[i], "outputs"));
  }
  return run;
}

/** Arguments: inputs, outputs, an array that gets the milliseconds of each step or null, done. */
Napi::Value ProgramObject::run(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Run run = runFrom(info);
  const Napi::Function done = toFunction(info[3], "done");
  std::initializer_list<Napi::Value> pinned = {info.This(), info[0], info[1]};
  if (info[2].IsNull()) {
    return Napi::Number::New(env, Environment::of(env).start(done, pinned, [run](const Cancellation& cancellation) {
      return run(&cancellation, nullptr);
    }));
  }
  auto milliseconds = std::make_shared<std::vector<double>>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(info[2].As<Napi::Object>()));
  const uint32_t id = Environment::of(env).start(
      done, pinned,
      [run, milliseconds](const Cancellation& cancellation) { return run(&cancellation, milliseconds.get()); },
      [milliseconds, report] {
        for (uint32_t i = 0; i < milliseconds->size(); ++i) report->Value().Set(i, (*milliseconds)[i]);
      });
  return Napi::Number::New(env, id);
}

void ProgramObject::runSync(const Napi::CallbackInfo& info) {
  const Run run = runFrom(info);
  Environment::of(info.Env()).beginAll();
  throwUnlessOk(info.Env(), callToStatus([&] { return run(nullptr, nullptr); }));
}

Napi::Value ProgramObject::choices(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Napi::Array list = Napi::Array::New(env);
  if (!prepared_) return list;
  const std::vector<Candidate>& choices = prepared_->choices();
  for (uint32_t i = 0; i < choices.size(); ++i) {
    list.Set(i, choices[i].algorithm.empty() ? env.Null() : toCandidate(env, choices[i]));
  }
  return list;
}

Napi::Value ProgramObject::bytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), prepared_ ? static_cast<double>(prepared_->bytes()) : 0);
}

void ProgramObject::keep(Napi::Env env, std::shared_ptr<const program::PreparedProgram> prepared) {
  release(env);
  prepared_ = std::move(prepared);
  Environment::of(env).countPlan(+1);
  Napi::MemoryManagement::AdjustExternalMemory(env, prepared_->bytes());
}

void ProgramObject::release(Napi::Env env) {
  if (!prepared_) return;
  Napi::MemoryManagement::AdjustExternalMemory(env, -prepared_->bytes());
  Environment::of(env).countPlan(-1);
  prepared_.reset();
}

void ProgramObject::dispose(const Napi::CallbackInfo& info) { release(info.Env()); }

}  // namespace warpconv::binding
