#include "binding/plan_object.h"

#include <utility>

#include "binding/arguments.h"
#include "binding/contest.h"
#include "binding/environment.h"
#include "binding/failure.h"

namespace warpconv::binding {

/** Numbers by name. */
template <typename Number>
Napi::Object toObject(Napi::Env env, const std::vector<std::pair<std::string, Number>>& numbers) {
  Napi::Object object = Napi::Object::New(env);
  for (const auto& [name, number] : numbers) object.Set(name, static_cast<double>(number));
  return object;
}

Napi::Array toConsidered(Napi::Env env, const std::vector<ConsideredKernel>& kernels) {
  Napi::Array list = Napi::Array::New(env);
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", kernels[i].name);
    object.Set("tiles", toObject(env, kernels[i].tiles));
    object.Set("figures", toObject(env, kernels[i].figures));
    if (!kernels[i].lost.empty()) object.Set("lost", kernels[i].lost);
    list.Set(i, object);
  }
  return list;
}

Napi::Object toCandidate(Napi::Env env, const Candidate& candidate) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("algorithm", candidate.algorithm);
  if (!candidate.accepts()) {
    object.Set("refusal", candidate.refusal);
    return object;
  }
  object.Set("predictedMilliseconds", candidate.estimate.milliseconds);
  object.Set("workspaceBytes", static_cast<double>(candidate.estimate.workspaceBytes));
  object.Set("tiles", toObject(env, candidate.estimate.tiles));
  if (candidate.estimate.considered) {
    object.Set("considered", toConsidered(env, candidate.estimate.considered()));
  }
  return object;
}

Napi::Function PlanObject::define(Napi::Env env) {
  return DefineClass(env, "Plan",
                     {
                         InstanceAccessor<&PlanObject::outputDims>("outputDims"),
                         InstanceAccessor<&PlanObject::algorithm>("algorithm"),
                         InstanceAccessor<&PlanObject::workspaceBytes>("workspaceBytes"),
                         InstanceAccessor<&PlanObject::predictedMilliseconds>("predictedMilliseconds"),
                         InstanceMethod<&PlanObject::candidates>("candidates"),
                         InstanceMethod<&PlanObject::prepare>("prepare"),
                         InstanceMethod<&PlanObject::prepareSync>("prepareSync"),
                         InstanceMethod<&PlanObject::run>("run"),
                         InstanceMethod<&PlanObject::runSync>("runSync"),
                         InstanceMethod<&PlanObject::convolve>("convolve"),
                         InstanceMethod<&PlanObject::convolveSync>("convolveSync"),
                         InstanceMethod<&PlanObject::measure>("measure"),
                         InstanceMethod<&PlanObject::measureSync>("measureSync"),
                         InstanceMethod<&PlanObject::holdContest>("holdContest"),
                         InstanceMethod<&PlanObject::variants>("variants"),
                         InstanceMethod<&PlanObject::dispose>("dispose"),
                     });
}

struct PlanObject::Decision {
  PlanProblem asked;
  int device;
  std::shared_ptr<Backend> backend;
  /** Of the backend's candidates: it gives the same whenever it is asked, and all take more memory than the rest. */
  Candidate choice;

  const ConvProblem& problem() const { return asked.problem; }
  Result<std::shared_ptr<const Prepared>> prepare(const Weights& weights) const {
    return backend->prepare(choice.algorithm, asked, weights.weight, weights.bias);
  }
};

PlanObject::PlanObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<PlanObject>(info) {
  const Napi::Env env = info.Env();
  const Specification spec = toSpecification(info[0]);
  auto backend = Environment::of(env).backend(env, spec.device);
  std::vector<Candidate> candidates = backend->candidates(spec.asked);
  const size_t chosen = valueOrThrow(env, choose(candidates, spec.asked.request, backend->device()));
  decision_ = std::make_shared<const Decision>(
      Decision{spec.asked, spec.device, std::move(backend), std::move(candidates[chosen])});
}

PlanObject::~PlanObject() { release(Env()); }

Napi::Value PlanObject::outputDims(const Napi::CallbackInfo& info) {
  return toArray(info.Env(), decision_->problem().outputDims());
}

Napi::Value PlanObject::algorithm(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), decision_->choice.algorithm);
}

Napi::Value PlanObject::workspaceBytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(decision_->choice.estimate.workspaceBytes));
}

Napi::Value PlanObject::predictedMilliseconds(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), decision_->choice.estimate.milliseconds);
}

Napi::Value PlanObject::candidates(const Napi::CallbackInfo& info) {
  const std::vector<Candidate> all = decision_->backend->candidates(decision_->asked);
  Napi::Array list = Napi::Array::New(info.Env());
  for (uint32_t i = 0; i < all.size(); ++i) list.Set(i, toCandidate(info.Env(), all[i]));
  return list;
}

/** Arguments 0 and 1: weight, bias. */
PlanObject::Weights PlanObject::weightsFrom(const Napi::CallbackInfo& info) const {
  return {.weight = toFloats(info[0], "weight", decision_->problem().weightSize()),
          .bias = toOptionalFloats(info[1], "options.bias", decision_->problem().k)};
}

/** Three arguments from `first` on: input, residual, output. */
Operands PlanObject::operandsFrom(const Napi::CallbackInfo& info, size_t first) const {
  const ConvProblem& x = decision_->problem();
  const int device = decision_->device;
  return {.input = toOperand(info[first], "input", x.inputSize(), device),
          .residual = toOperand(info[first + 1], "options.residual", x.outputSize(), device),
          .output = toOperand(info[first + 2], "options.output", x.outputSize(), device)};
}

std::shared_ptr<const Prepared> PlanObject::preparedOrThrow(Napi::Env env) const {
  if (!prepared_)
    throwFailure(env, {StatusCode::disposed, "the plan holds no weights: it was disposed or never prepared"});
  return prepared_;
}

void PlanObject::keep(Napi::Env env, std::shared_ptr<const Prepared> prepared) {
  release(env);
  prepared_ = std::move(prepared);
  Environment::of(env).countPlan(+1);
  Napi::MemoryManagement::AdjustExternalMemory(env, prepared_->bytes());
}

void PlanObject::release(Napi::Env env) {
  if (!prepared_) return;
  Napi::MemoryManagement::AdjustExternalMemory(env, -prepared_->bytes());
  Environment::of(env).countPlan(-1);
  prepared_.reset();
}

Napi::Value PlanObject::prepare(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Weights weights = weightsFrom(info);
  auto slot = std::make_shared<std::shared_ptr<const Prepared>>();
  const uint32_t id = Environment::of(env).start(
      toFunction(info[2], "done"), {info.This(), info[0], info[1]},
      [decision = decision_, weights, slot](const Cancellation&) {
        auto prepared = decision->prepare(weights);
        if (prepared.isOk()) *slot = std::move(prepared.value());
        return prepared.isOk() ? Status{} : prepared.status();
      },
      [this, env, slot] { keep(env, std::move(*slot)); });
  return Napi::Number::New(env, id);
}

void PlanObject::prepareSync(const Napi::CallbackInfo& info) {
  const Weights weights = weightsFrom(info);
  std::shared_ptr<const Prepared> made;
  throwUnlessOk(info.Env(), callToStatus([&] {
                  auto prepared = decision_->prepare(weights);
                  if (prepared.isOk()) made = std::move(prepared.value());
                  return prepared.isOk() ? Status{} : prepared.status();
                }));
  keep(info.Env(), std::move(made));
}

Napi::Value PlanObject::run(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Operands operands = operandsFrom(info, 0);
  const Napi::Function done = toFunction(info[3], "done");
  const std::initializer_list<Napi::Value> pinned = {info[0], info[1], info[2]};
  const std::shared_ptr<const Prepared> prepared = preparedOrThrow(env);
  Environment& environment = Environment::of(env);
  const uint32_t id = prepared->canEnqueue(operands)
                          // The operands are let go on this thread, when the call has settled.
                          ? environment.startElsewhere(
                                done, pinned,
                                [prepared, operands](auto ended) {
                                  return prepared->enqueue(operands, std::move(ended));
                                },
                                [prepared, operands] {})
                          : environment.start(done, pinned, [prepared, operands](const Cancellation& cancellation) {
                              return prepared->run(operands, &cancellation);
                            });
  return Napi::Number::New(env, id);
}

void PlanObject::runSync(const Napi::CallbackInfo& info) {
  const Operands operands = operandsFrom(info, 0);
  const std::shared_ptr<const Prepared> prepared = preparedOrThrow(info.Env());
  Environment::of(info.Env()).beginAll();
  throwUnlessOk(info.Env(), callToStatus([&] { return prepared->run(operands, nullptr); }));
}

Napi::Value PlanObject::convolve(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Weights weights = weightsFrom(info);
  const Operands operands = operandsFrom(info, 2);
  const uint32_t id =
      Environment::of(env).start(toFunction(info[5], "done"), {info[0], info[1], info[2], info[3], info[4]},
                                 [decision = decision_, weights, operands](const Cancellation& cancellation) {
                                   const auto prepared = decision->prepare(weights);
                                   if (!prepared.isOk()) return prepared.status();
                                   return prepared.value()->run(operands, &cancellation);
                                 });
  return Napi::Number::New(env, id);
}

void PlanObject::convolveSync(const Napi::CallbackInfo& info) {
  const Weights weights = weightsFrom(info);
  const Operands operands = operandsFrom(info, 2);
  Environment::of(info.Env()).beginAll();
  throwUnlessOk(info.Env(), callToStatus([&] {
                  const auto prepared = decision_->prepare(weights);
                  if (!prepared.isOk()) return prepared.status();
                  return prepared.value()->run(operands, nullptr);
                }));
}

/** Arguments: input and weight or nulls, what to compare, an object that gets the report, done. */
Napi::Value PlanObject::holdContest(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Contest contest = toContest(info[2]);
  contest.input = toOptionalFloats(info[0], "input", decision_->problem().inputSize());
  contest.weight = toOptionalFloats(info[1], "weight", decision_->problem().weightSize());
  Gpu* gpu = &Environment::of(env).gpu(env, decision_->device);
  auto slot = std::make_shared<ContestReport>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(info[3].As<Napi::Object>()));
  const uint32_t id = Environment::of(env).start(
      toFunction(info[4], "done"), {info.This(), info[0], info[1]},
      [decision = decision_, gpu, contest = std::move(contest), slot](const Cancellation&) {
        auto held = gpu->holdContest(contest, decision->problem());
        if (held.isOk()) *slot = std::move(held.value());
        return held.isOk() ? Status{} : held.status();
      },
      [env, slot, report] { fillReport(env, *slot, report->Value()); });
  return Napi::Number::New(env, id);
}

namespace {

Napi::Array toMeasurements(Napi::Env env, const std::vector<Measurement>& measurements) {
  Napi::Array list = Napi::Array::New(env, measurements.size());
  for (uint32_t i = 0; i < measurements.size(); ++i) {
    Napi::Object one = Napi::Object::New(env);
    one.Set("algorithm", measurements[i].algorithm);
    one.Set("variant", measurements[i].variant);
    one.Set("milliseconds", measurements[i].milliseconds);
    list.Set(i, one);
  }
  return list;
}

}  // namespace

/** Arguments: an object that gets the report, done. */
Napi::Value PlanObject::measure(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto slot = std::make_shared<std::vector<Measurement>>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(info[0].As<Napi::Object>()));
  const uint32_t id = Environment::of(env).start(
      toFunction(info[1], "done"), {info.This()},
      [decision = decision_, slot](const Cancellation& cancellation) {
        auto measured = decision->backend->measure(decision->asked, &cancellation);
        if (measured.isOk()) *slot = std::move(measured.value());
        return measured.isOk() ? Status{} : measured.status();
      },
      [env, slot, report] { report->Value().Set("measurements", toMeasurements(env, *slot)); });
  return Napi::Number::New(env, id);
}

Napi::Value PlanObject::measureSync(const Napi::CallbackInfo& info) {
  std::vector<Measurement> measurements;
  throwUnlessOk(info.Env(), callToStatus([&] {
                  auto measured = decision_->backend->measure(decision_->asked, nullptr);
                  if (measured.isOk()) measurements = std::move(measured.value());
                  return measured.isOk() ? Status{} : measured.status();
                }));
  return toMeasurements(info.Env(), measurements);
}

/** Argument: an algorithm's name. */
Napi::Value PlanObject::variants(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Gpu& gpu = Environment::of(env).gpu(env, decision_->device);
  Napi::Array list = Napi::Array::New(env);
  for (const std::string& variant : gpu.variants(info[0].ToString())) list.Set(list.Length(), variant);
  return list;
}

void PlanObject::dispose(const Napi::CallbackInfo& info) { release(info.Env()); }

}  // namespace warpconv::binding
