#include "binding/program_object.h"

#include <string>
#include <utility>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"
#include "binding/plan_object.h"
#include "binding/step_reader.h"

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

/** The addresses of a run's tensors, each of the size that the program was made for. */
template <typename Pointer>
std::vector<Pointer> addressesOf(const Napi::Value& value, const std::vector<int64_t>& sizes, const char* name) {
  const Napi::Array list = value.As<Napi::Array>();
  if (list.Length() != sizes.size()) {
    throwFailure(value.Env(), {StatusCode::internal, std::string(name) + " are not as many as the program's"});
  }
  std::vector<Pointer> addresses;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    const auto [address, bytes] = bytesOf(list.Get(i), name);
    if (bytes != sizes[i]) {
      throwFailure(value.Env(), {StatusCode::internal, std::string(name) + "[" + std::to_string(i) + "] has " +
                                                           std::to_string(bytes) + " bytes; the program needs " +
                                                           std::to_string(sizes[i])});
    }
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

struct ProgramObject::Run {
  std::shared_ptr<const program::PreparedProgram> prepared;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;

  Status operator()(const Cancellation* cancellation, std::vector<double>* milliseconds) const {
    return prepared->run({inputs, outputs}, cancellation, milliseconds);
  }
};

Napi::Function ProgramObject::define(Napi::Env env) {
  return DefineClass(env, "Program",
                     {
                         InstanceMethod<&ProgramObject::prepare>("prepare"),
                         InstanceMethod<&ProgramObject::run>("run"),
                         InstanceMethod<&ProgramObject::runSync>("runSync"),
                         InstanceMethod<&ProgramObject::choices>("choices"),
                         InstanceMethod<&ProgramObject::dispose>("dispose"),
                     });
}

ProgramObject::ProgramObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ProgramObject>(info) {
  const Napi::Env env = info.Env();
  const Napi::Object spec = toObject(info[0], "program");
  backend_ = Environment::of(env).backend(env, static_cast<int>(toInteger(spec.Get("device"), "program.device")));
  const Napi::Array steps = spec.Get("steps").As<Napi::Array>();
  for (uint32_t i = 0; i < steps.Length(); ++i) {
    const Napi::HandleScope scope(env);
    spec_.steps.push_back(toStep(steps.Get(i)));
  }
  const Napi::Array constants = spec.Get("constants").As<Napi::Array>();
  for (uint32_t i = 0; i < constants.Length(); ++i) {
    spec_.constants.push_back(bytesOf(constants.Get(i), "program.constants").first);
  }
  constants_ = Napi::Persistent(constants);
  spec_.arenaBytes = toInteger(spec.Get("arenaBytes"), "program.arenaBytes");
  inputBytes_ = toSizes(spec.Get("inputBytes"), "program.inputBytes");
  outputBytes_ = toSizes(spec.Get("outputBytes"), "program.outputBytes");
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
  return {prepared_, addressesOf<const void*>(info[0], inputBytes_, "inputs"),
          addressesOf<void*>(info[1], outputBytes_, "outputs")};
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
