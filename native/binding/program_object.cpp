#include "binding/program_object.h"

#include <array>
#include <span>
#include <string>
#include <utility>

#include "binding/boundary.h"
#include "binding/checked_arguments.h"
#include "binding/environment.h"
#include "binding/external_memory.h"
#include "binding/failure.h"
#include "binding/gpu_buffer.h"
#include "binding/plan_object.h"
#include "binding/step_reader.h"
#include "binding/store_object.h"
#include "gpu/gpu.h"
#include "program/verify.h"

namespace warpconv::binding {
namespace {

using ProgramClass = Class<ProgramObject>;

/** It takes half a microsecond to destroy a step. */
constexpr size_t kManySteps = 1000;

std::vector<int64_t> toSizes(const Napi::Value& value, const char* name) {
  const Napi::Array list = toList(value, name);
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < list.Length(); ++i) sizes.push_back(toSize(list.Get(i), name));
  return sizes;
}

/** As many values as there are sizes. Reading them may run JavaScript. */
Napi::Array toValues(const Napi::Value& given, size_t count, const char* name) {
  const Napi::Array list = toList(given, name);
  if (list.Length() == count) return list;
  throwFailure({StatusCode::internal, std::string(name) + " are not as many as the program's"});
}

void requireBytes(int64_t bytes, int64_t needed, const char* name) {
  if (bytes == needed) return;
  if (bytes == 0) {
    throwFailure(invalidArgument(std::string(name) + " has no memory any more: its buffer was transferred away before "
                                                     "the run began; transfer it when the run has settled"));
  }
  throwFailure({StatusCode::internal, std::string(name) + " has " + std::to_string(bytes) +
                                          " bytes; the program needs " + std::to_string(needed)});
}

}  // namespace

struct ProgramObject::Values {
  /** Those of the inputs, each with its pieces one after the other, then those of the outputs */
  std::vector<Napi::Value> all;
  /** How many of them each input has */
  std::vector<size_t> pieces;

  /** Reading it may run JavaScript. */
  void addInput(const Napi::Value& value) {
    if (!value.IsArray()) {
      all.push_back(value);
      pieces.push_back(1);
      return;
    }
    const auto list = value.As<Napi::Array>();
    const uint32_t count = list.Length();
    for (uint32_t i = 0; i < count; ++i) all.push_back(list.Get(i));
    pieces.push_back(count);
  }
};

struct ProgramObject::Run {
  std::shared_ptr<const program::PreparedProgram> prepared;
  std::vector<const void*> inputs;
  /** For each input none, or the pieces that it comes in */
  std::vector<std::vector<HostBytes>> parts;
  std::vector<void*> outputs;
  /** For each input, and each output, its memory on the GPU, or null */
  std::vector<std::shared_ptr<const GpuMemory>> residentInputs, residentOutputs;
  /** Under arrays that JavaScript might let go of in the meantime */
  std::vector<std::shared_ptr<const PinnedMemory>> pinned;

  void* arrayOf(const Napi::Value& value, int64_t needed, const char* name) {
    const auto [address, bytes] = toBytes(value, name);
    requireBytes(bytes, needed, name);
    keepPinned(address);
    return address;
  }

  void keepPinned(const void* address) {
    if (auto under = pinnedMemoryAt(address)) pinned.push_back(std::move(under));
  }

  void addParts(std::span<const Napi::Value> values, int64_t needed) {
    int64_t total = 0;
    bool isOneEmpty = false;
    std::vector<HostBytes>& added = parts.emplace_back();
    for (const Napi::Value& value : values) {
      const auto [address, bytes] = toBytes(value, "a part of an input");
      keepPinned(address);
      added.push_back({address, bytes});
      total += bytes;
      isOneEmpty = isOneEmpty || bytes == 0;
    }
    requireBytes(total < needed && isOneEmpty ? 0 : total, needed, "an input");
    inputs.push_back(nullptr);
    residentInputs.emplace_back();
  }

  /** That of a value which is no typed array. `device` is the program's, by its number. */
  static std::shared_ptr<const GpuMemory> residentOf(const Napi::Value& value, int64_t needed, int device,
                                                     const std::string& name) {
    auto memory = GpuBuffer::memoryOf(value);
    if (memory == nullptr) throwFailure(invalidArgument(name + " on a GPU was disposed before the run began"));
    if (memory->device() == device && memory->bytes() == needed) return memory;
    throwFailure(invalidArgument(name + " has " + std::to_string(memory->bytes()) +
                                 " bytes on 'cuda:" + std::to_string(memory->device()) + "'; the network needs " +
                                 std::to_string(needed) + " on the session's device"));
  }

  void addInput(const Napi::Value& value, int64_t needed, int device) {
    const bool isArray = value.IsTypedArray();
    inputs.push_back(isArray ? arrayOf(value, needed, "an input") : nullptr);
    residentInputs.push_back(isArray ? nullptr : residentOf(value, needed, device, "an input"));
    parts.emplace_back();
  }

  /** Null is for an output that nobody asked for, which a GPU keeps to itself. */
  void addOutput(const Napi::Value& value, int64_t needed, int device) {
    const bool isArray = value.IsTypedArray();
    const bool isUnwanted = value.IsNull() && device >= 0;
    outputs.push_back(isArray ? arrayOf(value, needed, "an output") : nullptr);
    residentOutputs.push_back(isArray || isUnwanted ? nullptr : residentOf(value, needed, device, "an output"));
  }

  Status operator()(const Cancellation* cancellation, std::vector<double>* milliseconds) const {
    return prepared->run({inputs, outputs, residentInputs, parts, residentOutputs}, cancellation, milliseconds);
  }
};

Napi::Function ProgramObject::define(Napi::Env env) {
  return ProgramClass::define(env, "Program",
                              {
                                  ProgramClass::method<&ProgramObject::add>("add"),
                                  ProgramClass::method<&ProgramObject::prepare>("prepare"),
                                  ProgramClass::method<&ProgramObject::run>("run"),
                                  ProgramClass::method<&ProgramObject::runSync>("runSync"),
                                  ProgramClass::method<&ProgramObject::choices>("choices"),
                                  ProgramClass::getter<&ProgramObject::bytes>("bytes"),
                                  ProgramClass::method<&ProgramObject::dispose>("dispose"),
                              });
}

ProgramObject::ProgramObject(const Napi::CallbackInfo& info) : env_(info.Env()) {
  const Napi::Object given = toObject(info[0], "program");
  const Napi::Value givenStore = given.Get("store");
  StoreObject& store = StoreObject::of(givenStore);
  store_ = store.shared();
  storeObject_ = &store;
  device_ = store.device();
  backend_ = Environment::of(env_).backend(device_);
  storeReference_ = Napi::Persistent(givenStore.As<Napi::Object>());
  program::ProgramSpec& spec = spec_.emplace();
  spec.arenaBytes = toSize(given.Get("arenaBytes"), "program.arenaBytes");
  inputBytes_ = spec.inputBytes = toSizes(given.Get("inputBytes"), "program.inputBytes");
  outputBytes_ = spec.outputBytes = toSizes(given.Get("outputBytes"), "program.outputBytes");
  constants_ = Napi::Persistent(Napi::Array::New(env_));
  addPart(given);
}

/** Argument: steps and constants that come after those that there are. */
void ProgramObject::add(const Napi::CallbackInfo& info) {
  requireUnprepared();
  addPart(toObject(info[0], "part"));
}

void ProgramObject::addPart(const Napi::Object& part) {
  const Napi::Array steps = toList(part.Get("steps"), "program.steps");
  for (uint32_t i = 0; i < steps.Length(); ++i) {
    const Napi::HandleScope scope(env_);
    program::Step step = toStep(steps.Get(i));
    // Reading it may have run JavaScript.
    requireUnprepared();
    spec_->steps.push_back(std::move(step));
  }
  const Napi::Array isShared = toList(part.Get("sharedConstants"), "program.sharedConstants");
  std::vector<bool> shared;
  for (uint32_t i = 0; i < isShared.Length(); ++i) shared.push_back(isShared.Get(i).ToBoolean());
  addConstants(toList(part.Get("constants"), "program.constants"), shared);
}

/** Keeps the arrays in a list of its own, and takes their addresses when no more JavaScript can run. */
void ProgramObject::addConstants(const Napi::Array& given, const std::vector<bool>& shared) {
  const Napi::Array constants = constants_.Value();
  const uint32_t first = constants.Length();
  for (uint32_t i = 0; i < given.Length(); ++i) constants.Set(constants.Length(), given.Get(i));
  requireUnprepared();
  for (uint32_t i = first; i < constants.Length(); ++i) {
    const auto [address, bytes] = toBytes(constants.Get(i), "a constant");
    spec_->constants.push_back(address);
    spec_->constantBytes.push_back(bytes);
    spec_->sharedConstants.push_back(i - first < shared.size() && shared[i - first]);
  }
}

void ProgramObject::requireUnprepared() const {
  if (!spec_) throwFailure({StatusCode::internal, "a program is added to, and prepared once, and then neither"});
}

Napi::Value ProgramObject::prepare(const Napi::CallbackInfo& info) {
  const Napi::Function done = toFunction(info[0], "done");
  requireUnprepared();
  auto spec = std::make_shared<program::ProgramSpec>(*std::exchange(spec_, std::nullopt));
  auto slot = std::make_shared<std::shared_ptr<const program::PreparedProgram>>();
  const uint32_t id = Environment::of(env_).start(
      done, std::array{info.This()},
      [backend = backend_, store = std::move(store_), spec, slot](const Cancellation&) {
        const Status verified = program::verify(*spec);
        if (!verified.isOk()) return verified;
        auto prepared = backend->prepareProgram(std::move(*spec), store);
        if (prepared.isOk()) *slot = std::move(prepared.value());
        return prepared.isOk() ? Status{} : prepared.status();
      },
      [this, slot] { keep(std::move(*slot)); }, client_);
  return Napi::Number::New(env_, id);
}

/** Two arguments: inputs, each of them one or a list of pieces; outputs, or nulls. Reading them may run JavaScript. */
ProgramObject::Values ProgramObject::valuesFrom(const Napi::CallbackInfo& info) const {
  Values values;
  const Napi::Array inputs = toValues(info[0], inputBytes_.size(), "inputs");
  for (uint32_t i = 0; i < inputBytes_.size(); ++i) values.addInput(inputs.Get(i));
  const Napi::Array outputs = toValues(info[1], outputBytes_.size(), "outputs");
  for (uint32_t i = 0; i < outputBytes_.size(); ++i) values.all.push_back(outputs.Get(i));
  return values;
}

/** Runs no JavaScript, so that nothing moves away from the address that is taken here. */
ProgramObject::Run ProgramObject::runOf(const Values& values) const {
  if (!prepared_) throwFailure({StatusCode::disposed, "the session has been released"});
  Run run{prepared_, {}, {}, {}, {}, {}, {}};
  std::span<const Napi::Value> left(values.all);
  for (size_t i = 0; i < inputBytes_.size(); ++i) {
    const size_t pieces = values.pieces[i];
    if (pieces == 1) {
      run.addInput(left[0], inputBytes_[i], device_);
    } else {
      run.addParts(left.first(pieces), inputBytes_[i]);
    }
    left = left.subspan(pieces);
  }
  for (size_t i = 0; i < outputBytes_.size(); ++i) run.addOutput(left[i], outputBytes_[i], device_);
  return run;
}

/** Arguments: inputs, outputs, an array that gets the milliseconds of each step or null, done. */
Napi::Value ProgramObject::run(const Napi::CallbackInfo& info) {
  Environment& environment = Environment::of(env_);
  const Values given = valuesFrom(info);
  const Napi::Function done = toFunction(info[3], "done");
  Run run = runOf(given);
  std::vector<Napi::Value> values = given.all;
  // The constants, to which the program has addresses
  values.push_back(info.This());
  if (info[2].IsNull()) {
    const uint32_t id = environment.start(
        done, values, [run = std::move(run)](const Cancellation& asked) { return run(&asked, nullptr); }, {}, client_);
    return Napi::Number::New(env_, id);
  }
  auto milliseconds = std::make_shared<std::vector<double>>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(toObject(info[2], "milliseconds")));
  const uint32_t id = environment.start(
      done, values,
      [run = std::move(run), milliseconds](const Cancellation& asked) { return run(&asked, milliseconds.get()); },
      [milliseconds, report] {
        for (uint32_t i = 0; i < milliseconds->size(); ++i) report->Value().Set(i, (*milliseconds)[i]);
      },
      client_);
  return Napi::Number::New(env_, id);
}

void ProgramObject::runSync(const Napi::CallbackInfo& info) {
  const Run run = runOf(valuesFrom(info));
  Environment::of(env_).beginAll();
  throwUnlessOk(run(nullptr, nullptr));
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

Napi::Value ProgramObject::bytes(const Napi::CallbackInfo&) {
  return Napi::Number::New(env_, prepared_ ? static_cast<double>(prepared_->bytes()) : 0);
}

void ProgramObject::keep(std::shared_ptr<const program::PreparedProgram> prepared) noexcept {
  release();
  prepared_ = std::move(prepared);
  Environment::of(env_).countPlan(+1);
  countExternalMemory(env_, prepared_->bytes());
  storeObject_->recount();
}

void ProgramObject::release() noexcept {
  if (!prepared_) return;
  countExternalMemory(env_, -prepared_->bytes());
  Environment& environment = Environment::of(env_);
  environment.countPlan(-1);
  std::shared_ptr<const program::PreparedProgram> prepared = std::exchange(prepared_, nullptr);
  // Others are gone at once, and so is their memory.
  if (prepared->choices().size() >= kManySteps) environment.letGoElsewhere(std::move(prepared));
}

void ProgramObject::dispose(const Napi::CallbackInfo&) { release(); }

}  // namespace warpconv::binding
