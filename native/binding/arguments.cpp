#include "binding/arguments.h"

#include <cmath>
#include <string>
#include <vector>

#include "binding/failure.h"
#include "binding/gpu_buffer.h"

namespace warpconv::binding {

int64_t toInteger(const Napi::Value& value, const std::string& name) {
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : NAN;
  // Larger magnitudes are no exact integers in JavaScript, and no legal extent anyway.
  constexpr double kMostExact = 9007199254740991.0;
  if (!(std::abs(number) <= kMostExact) || std::trunc(number) != number) {
    throwFailure(value.Env(), invalidArgument(name + " must be an integer"));
  }
  return static_cast<int64_t>(number);
}

Napi::Object toObject(const Napi::Value& value, const std::string& name) {
  if (!value.IsObject()) throwFailure(value.Env(), invalidArgument(name + " must be an object"));
  return value.As<Napi::Object>();
}

Activation toActivation(const Napi::Value& value) {
  const Napi::Object object = toObject(value, "options.activation");
  const Napi::Object list = toObject(object.Get("parameters"), "options.activation.parameters");
  std::vector<double> parameters;
  const uint32_t count = list.Get("length").ToNumber().Uint32Value();
  for (uint32_t i = 0; i < count; ++i) parameters.push_back(list.Get(i).ToNumber().DoubleValue());
  return valueOrThrow(value.Env(), makeActivation(object.Get("name").ToString().Utf8Value(), parameters));
}

namespace {

template <size_t N>
std::array<int64_t, N> toIntegers(const Napi::Value& value, const std::string& name) {
  const Napi::Object list = toObject(value, name);
  std::array<int64_t, N> integers{};
  for (uint32_t i = 0; i < N; ++i) integers[i] = toInteger(list.Get(i), name + "[" + std::to_string(i) + "]");
  return integers;
}

Extent toExtent(const Napi::Value& value, const std::string& name) {
  const auto [h, w] = toIntegers<2>(value, name);
  return {h, w};
}

void readPadding(const Napi::Value& value, ConvRequest& request) {
  if (value.IsString()) {
    const std::string mode = value.As<Napi::String>();
    if (mode != "same" && mode != "valid") {
      throwFailure(value.Env(), invalidArgument("options.padding must be four integers, 'same' or 'valid'"));
    }
    request.paddingMode = mode == "same" ? PaddingMode::same : PaddingMode::valid;
    return;
  }
  const auto [top, left, bottom, right] = toIntegers<4>(value, "options.padding");
  request.padding = {top, left, bottom, right};
}

ConvProblem toProblem(const Napi::Object& spec) {
  ConvRequest request;
  request.inputDims = toIntegers<4>(spec.Get("inputDims"), "input.dims");
  request.weightDims = toIntegers<4>(spec.Get("weightDims"), "weight.dims");
  request.stride = toExtent(spec.Get("stride"), "options.stride");
  request.dilation = toExtent(spec.Get("dilation"), "options.dilation");
  readPadding(spec.Get("padding"), request);
  request.groups = toInteger(spec.Get("groups"), "options.groups");
  return valueOrThrow(spec.Env(), makeConvProblem(request));
}

/** The meaning of one of a few words, or nothing for null. */
template <typename T>
std::optional<T> toNamed(const Napi::Value& value, const char* name,
                         std::initializer_list<std::pair<const char*, T>> words) {
  if (value.IsNull()) return std::nullopt;
  const std::string given = value.ToString();
  for (const auto& [word, meaning] : words) {
    if (given == word) return meaning;
  }
  throwFailure(value.Env(), invalidArgument(std::string(name) + " does not take '" + given + "'"));
}

sconv::Switches toSwitches(const Napi::Value& value) {
  using namespace sconv;
  const Napi::Object object = toObject(value, "options.sconv");
  return {
      .schedule = toNamed<Schedule>(
          object.Get("schedule"), "options.sconv.schedule",
          {{"inputStationary", Schedule::inputStationary}, {"weightStationary", Schedule::weightStationary}}),
      .presentation = toNamed<Presentation>(object.Get("presentation"), "options.sconv.presentation",
                                            {{"asTheyLie", Presentation::asTheyLie}, {"packed", Presentation::packed}}),
      .vectorPacking = object.Get("vectorPacking").ToBoolean(),
      .packAhead = object.Get("packing").ToString().Utf8Value() == "ahead"};
}

PlanRequest toRequest(const Napi::Object& spec) {
  PlanRequest request;
  request.algorithm = spec.Get("algorithm").ToString();
  request.variant = spec.Get("variant").ToString();
  const Napi::Value limit = spec.Get("workspaceLimit");
  const bool unlimited = limit.IsNumber() && limit.As<Napi::Number>().DoubleValue() == INFINITY;
  if (!unlimited) request.workspaceLimit = toInteger(limit, "options.workspaceLimit");
  request.switches = toSwitches(spec.Get("sconv"));
  return request;
}

}  // namespace

Specification toSpecification(const Napi::Value& value) {
  const Napi::Object spec = toObject(value, "spec");
  return {.asked = {.problem = toProblem(spec),
                    .activation = toActivation(spec.Get("activation")),
                    .request = toRequest(spec)},
          .device = static_cast<int>(toInteger(spec.Get("device"), "options.device"))};
}

float* toFloats(const Napi::Value& value, const char* name, int64_t elements) {
  napi_typedarray_type type{};
  size_t length = 0;
  void* data = nullptr;
  // Raw, because the wrapper asks several times, and a small call has three arrays. It fails on what is no typed array.
  const napi_status status = napi_get_typedarray_info(value.Env(), value, &type, &length, &data, nullptr, nullptr);
  if (status != napi_ok || type != napi_float32_array) {
    throwFailure(value.Env(), invalidArgument(std::string(name) + ".data must be a Float32Array"));
  }
  if (static_cast<int64_t>(length) != elements) {
    throwFailure(value.Env(), invalidArgument(std::string(name) + ".data has " + std::to_string(length) +
                                              " elements; the problem needs " + std::to_string(elements)));
  }
  return static_cast<float*>(data);
}

float* toOptionalFloats(const Napi::Value& value, const char* name, int64_t elements) {
  return value.IsNull() ? nullptr : toFloats(value, name, elements);
}

Operand toOperand(const Napi::Value& value, const char* name, int64_t elements, int device) {
  if (value.IsNull()) return {};
  const std::shared_ptr<const GpuMemory> memory = GpuBuffer::memoryOf(value);
  if (memory == nullptr) return {toFloats(value, name, elements), nullptr};
  const int64_t needed = elements * static_cast<int64_t>(sizeof(float));
  if (memory->device() != device || memory->bytes() != needed) {
    throwFailure(value.Env(),
                 invalidArgument(std::string(name) + " has " + std::to_string(memory->bytes()) +
                                 " bytes on 'cuda:" + std::to_string(memory->device()) + "'; the problem needs " +
                                 std::to_string(needed) + " on the plan's device"));
  }
  return {nullptr, memory};
}

Napi::Function toFunction(const Napi::Value& value, const char* name) {
  if (!value.IsFunction()) throwFailure(value.Env(), invalidArgument(std::string(name) + " must be a function"));
  return value.As<Napi::Function>();
}

Napi::Array toArray(Napi::Env env, const std::array<int64_t, 4>& dims) {
  Napi::Array array = Napi::Array::New(env, dims.size());
  for (uint32_t i = 0; i < dims.size(); ++i) array.Set(i, Napi::Number::New(env, static_cast<double>(dims[i])));
  return array;
}

}  // namespace warpconv::binding
