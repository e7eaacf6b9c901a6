#include "binding/plan_object.h"

#include <array>
#include <utility>

#include "binding/boundary.h"
#include "binding/checked_arguments.h"
#include "binding/contest_conversion.h"
#include "binding/environment.h"
#include "binding/external_memory.h"
#include "binding/failure.h"
#include "cpu/formats/formats.h"
#include "memory/aligned_buffer.h"
#include "planner/choose.h"

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

namespace {

using PlanClass = Class<PlanObject>;

}  // namespace

Napi::Function PlanObject::define(Napi::Env env) {
  return PlanClass::define(env, "Plan",
                           {
                               PlanClass::getter<&PlanObject::outputDims>("outputDims"),
                               PlanClass::getter<&PlanObject::algorithm>("algorithm"),
                               PlanClass::getter<&PlanObject::workspaceBytes>("workspaceBytes"),
                               PlanClass::getter<&PlanObject::predictedMilliseconds>("predictedMilliseconds"),
                               PlanClass::method<&PlanObject::candidates>("candidates"),
                               PlanClass::method<&PlanObject::prepare>("prepare"),
                               PlanClass::method<&PlanObject::prepareSync>("prepareSync"),
                               PlanClass::method<&PlanObject::run>("run"),
                               PlanClass::method<&PlanObject::runSync>("runSync"),
                               PlanClass::method<&PlanObject::convolve>("convolve"),
                               PlanClass::method<&PlanObject::convolveSync>("convolveSync"),
                               PlanClass::method<&PlanObject::measure>("measure"),
                               PlanClass::method<&PlanObject::measureSync>("measureSync"),
                               PlanClass::method<&PlanObject::holdContest>("holdContest"),
                               PlanClass::method<&PlanObject::variants>("variants"),
                               PlanClass::method<&PlanObject::dispose>("dispose"),
                           });
}

namespace {

/** Elements of 16 bits as float32, exactly; float32 as it is. */
class Widened {
 public:
  Widened(const TypedElements& given, int64_t elements)
      : Widened({given.type, Layout::nchw, 0}, 1, 1, elements, given.data) {}
  /** In the order of NCHW, whatever the layout */
  Widened(const TensorFormat& format, int64_t n, int64_t channels, int64_t area, const void* given)
      : copy_(given == nullptr || format == TensorFormat{} ? 0 : n * channels * area),
        floats_(static_cast<const float*>(given)) {
    if (copy_.elements() == 0) return;
    toPlain(format, n, channels, area, given, copy_.data(), {});
    floats_ = copy_.data();
  }

  const float* floats() const { return floats_; }

 private:
  AlignedBuffer copy_;
  const float* floats_;
};

}  // namespace

struct PlanObject::Decision {
  PlanProblem asked;
  int device;
  std::shared_ptr<Backend> backend;
  /** Of the backend's candidates: it gives the same whenever it is asked, and all take more memory than the rest. */
  Candidate choice;

  const ConvProblem& problem() const { return asked.problem; }
  Result<std::shared_ptr<const PreparedConvolution>> prepare(const Weights& weights) const {
    const Widened weight(weights.weight, problem().weightSize()), bias(weights.bias, problem().k);
    return backend->prepare(choice.algorithm, asked, weight.floats(), bias.floats());
  }
};

namespace {

Napi::Array toCandidates(Napi::Env env, const std::vector<Candidate>& candidates) {
  Napi::Array list = Napi::Array::New(env);
  for (uint32_t i = 0; i < candidates.size(); ++i) list.Set(i, toCandidate(env, candidates[i]));
  return list;
}

}  // namespace

Napi::Value candidatesOf(const Napi::CallbackInfo& info) {
  const Specification spec = toSpecification(info[0]);
  return toCandidates(info.Env(), Environment::of(info.Env()).backend(spec.device)->candidates(spec.asked));
}

PlanObject::PlanObject(const Napi::CallbackInfo& info) : env_(info.Env()) {
  const Specification spec = toSpecification(info[0]);
  auto backend = Environment::of(env_).backend(spec.device);
  std::vector<Candidate> candidates = backend->candidates(spec.asked);
  const size_t chosen = valueOrThrow(choose(candidates, spec.asked.request, backend->device()));
  decision_ = std::make_shared<const Decision>(
      Decision{spec.asked, spec.device, std::move(backend), std::move(candidates[chosen])});
}

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
  return toCandidates(info.Env(), decision_->backend->candidates(decision_->asked));
}

/** Arguments 0 and 1: weight, bias. */
PlanObject::Weights PlanObject::weightsFrom(const Napi::CallbackInfo& info) const {
  const ConvProblem& x = decision_->problem();
  const FloatType type = x.format.input.type;
  return {.weight = toFloatsOr(type, info[0], "weight", x.weightSize()),
          .bias = toOptionalFloatsOr(type, info[1], "options.bias", x.k)};
}

/** Three arguments from `first` on: input, residual, output. */
Operands PlanObject::operandsFrom(const Napi::CallbackInfo& info, size_t first) const {
  const ConvProblem& x = decision_->problem();
  const int device = decision_->device;
  return {.input = toOperand(info[first], "input", x.format.input.type, x.inputSpan(), device),
          .residual =
              toOptionalOperand(info[first + 1], "options.residual", x.format.residual.type, x.residualSpan(), device),
          .output = toOperand(info[first + 2], "options.output", x.format.output.type, x.outputSpan(), device)};
}

std::shared_ptr<const PreparedConvolution> PlanObject::preparedOrThrow() const {
  if (!prepared_) throwFailure({StatusCode::disposed, "the plan holds no weights: it was disposed or never prepared"});
  return prepared_;
}

void PlanObject::keep(std::shared_ptr<const PreparedConvolution> prepared) noexcept {
  release();
  prepared_ = std::move(prepared);
  Environment::of(env_).countPlan(+1);
  countExternalMemory(env_, prepared_->bytes());
}

void PlanObject::release() noexcept {
  if (!prepared_) return;
  countExternalMemory(env_, -prepared_->bytes());
  Environment::of(env_).countPlan(-1);
  prepared_.reset();
}

Napi::Value PlanObject::prepare(const Napi::CallbackInfo& info) {
  const Weights weights = weightsFrom(info);
  auto slot = std::make_shared<std::shared_ptr<const PreparedConvolution>>();
  const uint32_t id = Environment::of(env_).start(
      toFunction(info[2], "done"), std::array{info.This(), info[0], info[1]},
      [decision = decision_, weights, slot](const Cancellation&) {
        auto prepared = decision->prepare(weights);
        if (prepared.isOk()) *slot = std::move(prepared.value());
        return prepared.isOk() ? Status{} : prepared.status();
      },
      [this, slot] { keep(std::move(*slot)); });
  return Napi::Number::New(env_, id);
}

void PlanObject::prepareSync(const Napi::CallbackInfo& info) {
  keep(valueOrThrow(decision_->prepare(weightsFrom(info))));
}

Napi::Value PlanObject::run(const Napi::CallbackInfo& info) {
  const Operands operands = operandsFrom(info, 0);
  const Napi::Function done = toFunction(info[3], "done");
  const std::array pinned{info[0], info[1], info[2]};
  const std::shared_ptr<const PreparedConvolution> prepared = preparedOrThrow();
  Environment& environment = Environment::of(env_);
  const uint32_t id =
      prepared->canEnqueue(operands)
          // The operands are let go on this thread, when the call has settled.
          ? environment.startElsewhere(
                done, pinned,
                [prepared, operands](auto ended) { return prepared->enqueue(operands, std::move(ended)); },
                [prepared, operands] {})
          : environment.start(done, pinned, [prepared, operands](const Cancellation& cancellation) {
              return prepared->run(operands, &cancellation);
            });
  return Napi::Number::New(env_, id);
}

void PlanObject::runSync(const Napi::CallbackInfo& info) {
  const Operands operands = operandsFrom(info, 0);
  const std::shared_ptr<const PreparedConvolution> prepared = preparedOrThrow();
  Environment::of(env_).beginAll();
  throwUnlessOk(prepared->run(operands, nullptr));
}

Napi::Value PlanObject::convolve(const Napi::CallbackInfo& info) {
  const Weights weights = weightsFrom(info);
  const Operands operands = operandsFrom(info, 2);
  const uint32_t id =
      Environment::of(env_).start(toFunction(info[5], "done"), std::array{info[0], info[1], info[2], info[3], info[4]},
                                  [decision = decision_, weights, operands](const Cancellation& cancellation) {
                                    const auto prepared = decision->prepare(weights);
                                    if (!prepared.isOk()) return prepared.status();
                                    return prepared.value()->run(operands, &cancellation);
                                  });
  return Napi::Number::New(env_, id);
}

void PlanObject::convolveSync(const Napi::CallbackInfo& info) {
  const Weights weights = weightsFrom(info);
  const Operands operands = operandsFrom(info, 2);
  Environment::of(env_).beginAll();
  throwUnlessOk(valueOrThrow(decision_->prepare(weights))->run(operands, nullptr));
}

/** Arguments: input and weight or nulls, what to compare, an object that gets the report, done. */
Napi::Value PlanObject::holdContest(const Napi::CallbackInfo& info) {
  const Contest contest = toContest(info[2]);
  const ConvProblem& x = decision_->problem();
  const Operand input = toOptionalOperand(info[0], "input", x.format.input.type, x.inputSpan(), decision_->device);
  const TypedElements weight = toOptionalFloatsOr(x.format.input.type, info[1], "weight", x.weightSize());
  Environment& environment = Environment::of(env_);
  Gpu* gpu = &environment.gpu(decision_->device);
  auto slot = std::make_shared<ContestReport>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(toObject(info[3], "report")));
  const uint32_t id = environment.start(
      toFunction(info[4], "done"), std::array{info.This(), info[0], info[1]},
      [decision = decision_, gpu, contest, host = input.host, weight, slot](const Cancellation&) {
        const ConvProblem& problem = decision->problem();
        const Widened plain(problem.format.input, problem.n, problem.c, problem.h * problem.w, host);
        const Widened filters(weight, problem.weightSize());
        Contest given = contest;
        given.input = plain.floats();
        given.weight = filters.floats();
        auto held = gpu->holdContest(given, decision->asked);
        if (held.isOk()) *slot = std::move(held.value());
        return held.isOk() ? Status{} : held.status();
      },
      [env = env_, slot, report] { fillReport(env, *slot, report->Value()); });
  return Napi::Number::New(env_, id);
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
  auto slot = std::make_shared<std::vector<Measurement>>();
  auto report = std::make_shared<Napi::ObjectReference>(Napi::Persistent(toObject(info[0], "report")));
  const uint32_t id = Environment::of(env_).start(
      toFunction(info[1], "done"), std::array{info.This()},
      [decision = decision_, slot](const Cancellation& cancellation) {
        auto measured = decision->backend->measure(decision->asked, &cancellation);
        if (measured.isOk()) *slot = std::move(measured.value());
        return measured.isOk() ? Status{} : measured.status();
      },
      [env = env_, slot, report] { report->Value().Set("measurements", toMeasurements(env, *slot)); },
      std::make_shared<Executor::Client>());
  return Napi::Number::New(env_, id);
}

Napi::Value PlanObject::measureSync(const Napi::CallbackInfo&) {
  return toMeasurements(env_, valueOrThrow(decision_->backend->measure(decision_->asked, nullptr)));
}

/** Argument: an algorithm's name. */
Napi::Value PlanObject::variants(const Napi::CallbackInfo& info) {
  const Gpu& gpu = Environment::of(env_).gpu(decision_->device);
  Napi::Array list = Napi::Array::New(env_);
  for (const std::string& variant : gpu.variants(info[0].ToString())) list.Set(list.Length(), variant);
  return list;
}

void PlanObject::dispose(const Napi::CallbackInfo&) { release(); }

}  // namespace warpconv::binding
