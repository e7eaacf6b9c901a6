#include "binding/plan_object.h"

#include <utility>

#include "binding/arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"

namespace warpconv::binding {
namespace {

std::shared_ptr<const PreparedConvolution> prepareWeights(const Plan& plan, const ConvWeights& weights) {
  return plan.choice().algorithm->prepare(plan.problem, plan.activation, weights, plan.cpu, plan.switches);
}

Napi::Object toCandidate(Napi::Env env, const Candidate& candidate) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("algorithm", candidate.algorithm->name);
  if (!candidate.accepts()) {
    object.Set("refusal", candidate.refusal);
    return object;
  }
  object.Set("predictedMilliseconds", candidate.estimate.milliseconds);
  object.Set("workspaceBytes", static_cast<double>(candidate.estimate.workspaceBytes));
  Napi::Object tiles = Napi::Object::New(env);
  for (const auto& [name, extent] : candidate.estimate.tiles) tiles.Set(name, static_cast<double>(extent));
  object.Set("tiles", tiles);
  return object;
}

}  // namespace

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
                         InstanceMethod<&PlanObject::dispose>("dispose"),
                     });
}

PlanObject::PlanObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<PlanObject>(info) {
  const Napi::Env env = info.Env();
  const Specification spec = toSpecification(info[0]);
  const CpuInfo cpu = valueOrThrow(env, usableCpu());
  plan_ = std::make_shared<const Plan>(valueOrThrow(env, makePlan(spec.problem, spec.activation, spec.request, cpu)));
}

PlanObject::~PlanObject() { release(Env()); }

Napi::Value PlanObject::outputDims(const Napi::CallbackInfo& info) {
  return toArray(info.Env(), plan_->problem.outputDims());
}

Napi::Value PlanObject::algorithm(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), plan_->choice().algorithm->name);
}

Napi::Value PlanObject::workspaceBytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(plan_->choice().estimate.workspaceBytes));
}

Napi::Value PlanObject::predictedMilliseconds(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), plan_->choice().estimate.milliseconds);
}

Napi::Value PlanObject::candidates(const Napi::CallbackInfo& info) {
  Napi::Array list = Napi::Array::New(info.Env());
  for (uint32_t i = 0; i < plan_->candidates.size(); ++i) list.Set(i, toCandidate(info.Env(), plan_->candidates[i]));
  return list;
}

/** Arguments 0 and 1: weight, bias. */
ConvWeights PlanObject::weightsFrom(const Napi::CallbackInfo& info) const {
  return {.weight = toFloats(info[0], "weight", plan_->problem.weightSize()),
          .bias = toOptionalFloats(info[1], "options.bias", plan_->problem.k)};
}

/** Three arguments from `first` on: input, residual, output. */
ConvTensors PlanObject::tensorsFrom(const Napi::CallbackInfo& info, size_t first) const {
  return {.input = toFloats(info[first], "input", plan_->problem.inputSize()),
          .residual = toOptionalFloats(info[first + 1], "options.residual", plan_->problem.outputSize()),
          .output = toFloats(info[first + 2], "options.output", plan_->problem.outputSize())};
}

PlanObject::Prepared PlanObject::preparedOrThrow(Napi::Env env) const {
  if (!prepared_)
    throwFailure(env, {StatusCode::disposed, "the plan holds no weights: it was disposed or never prepared"});
  return prepared_;
}

void PlanObject::keep(Napi::Env env, Prepared prepared) {
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
  const ConvWeights weights = weightsFrom(info);
  auto slot = std::make_shared<Prepared>();
  const uint32_t id = Environment::of(env).start(
      toFunction(info[2], "done"), {info.This(), info[0], info[1]},
      [plan = plan_, weights, slot](const Cancellation&) {
        *slot = prepareWeights(*plan, weights);
        return Status{};
      },
      [this, env, slot] { keep(env, std::move(*slot)); });
  return Napi::Number::New(env, id);
}

void PlanObject::prepareSync(const Napi::CallbackInfo& info) {
  const ConvWeights weights = weightsFrom(info);
  Prepared prepared;
  throwUnlessOk(info.Env(), callToStatus([&] {
                  prepared = prepareWeights(*plan_, weights);
                  return Status{};
                }));
  keep(info.Env(), std::move(prepared));
}

Napi::Value PlanObject::run(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const ConvTensors tensors = tensorsFrom(info, 0);
  Executor* executor = &Environment::of(env).executor();
  const uint32_t id = Environment::of(env).start(
      toFunction(info[3], "done"), {info[0], info[1], info[2]},
      [prepared = preparedOrThrow(env), tensors, executor](const Cancellation& cancellation) {
        return prepared->run(tensors, {executor, &cancellation});
      });
  return Napi::Number::New(env, id);
}

void PlanObject::runSync(const Napi::CallbackInfo& info) {
  const ConvTensors tensors = tensorsFrom(info, 0);
  const Prepared prepared = preparedOrThrow(info.Env());
  Executor& executor = Environment::of(info.Env()).executor();
  throwUnlessOk(info.Env(), callToStatus([&] { return prepared->run(tensors, {&executor, nullptr}); }));
}

Napi::Value PlanObject::convolve(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const ConvWeights weights = weightsFrom(info);
  const ConvTensors tensors = tensorsFrom(info, 2);
  Executor* executor = &Environment::of(env).executor();
  const uint32_t id =
      Environment::of(env).start(toFunction(info[5], "done"), {info[0], info[1], info[2], info[3], info[4]},
                                 [plan = plan_, weights, tensors, executor](const Cancellation& cancellation) {
                                   return prepareWeights(*plan, weights)->run(tensors, {executor, &cancellation});
                                 });
  return Napi::Number::New(env, id);
}

void PlanObject::convolveSync(const Napi::CallbackInfo& info) {
  const ConvWeights weights = weightsFrom(info);
  const ConvTensors tensors = tensorsFrom(info, 2);
  Executor& executor = Environment::of(info.Env()).executor();
  throwUnlessOk(info.Env(), callToStatus([&] {
                  return prepareWeights(*plan_, weights)->run(tensors, {&executor, nullptr});
                }));
}

void PlanObject::dispose(const Napi::CallbackInfo& info) { release(info.Env()); }

}  // namespace warpconv::binding
