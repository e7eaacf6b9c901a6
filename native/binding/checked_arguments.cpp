#include "binding/checked_arguments.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "binding/failure.h"
#include "binding/gpu_buffer.h"

namespace warpconv::binding {

namespace {

/** Larger magnitudes are no exact integers in JavaScript, and no legal extent anyway. */
constexpr int64_t kMostExact = 9007199254740991;

}  // namespace

int64_t toInteger(const Napi::Value& value, const std::string& name) {
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : NAN;
  if (!(std::abs(number) <= static_cast<double>(kMostExact)) || std::trunc(number) != number) {
    throwFailure(invalidArgument(name + " must be an integer"));
  }
  return static_cast<int64_t>(number);
}

int64_t toInteger(const Napi::Value& value, const std::string& name, int64_t least, int64_t most) {
  const int64_t integer = toInteger(value, name);
  if (integer < least || integer > most) {
    throwFailure(invalidArgument(name + " is " + std::to_string(integer) + "; it goes from " + std::to_string(least) +
                                 " to " + std::to_string(most)));
  }
  return integer;
}

int64_t toSize(const Napi::Value& value, const std::string& name) { return toInteger(value, name, 0, kMostExact); }

int toDevice(const Napi::Value& value) {
  return static_cast<int>(toInteger(value, "a GPU's index", 0, std::numeric_limits<int>::max()));
}

Napi::Object toObject(const Napi::Value& value, const std::string& name) {
  if (!value.IsObject()) throwFailure(invalidArgument(name + " must be an object"));
  return value.As<Napi::Object>();
}

Napi::Array toList(const Napi::Value& value, const std::string& name) {
  if (!value.IsArray()) throwFailure(invalidArgument(name + " must be an array"));
  return value.As<Napi::Array>();
}

Napi::Function toFunction(const Napi::Value& value, const char* name) {
  if (!value.IsFunction()) throwFailure(invalidArgument(std::string(name) + " must be a function"));
  return value.As<Napi::Function>();
}

Activation toActivation(const Napi::Value& value) {
  const Napi::Object object = toObject(value, "options.activation");
  const Napi::Array list = toList(object.Get("parameters"), "options.activation.parameters");
  std::vector<double> parameters;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value parameter = list.Get(i);
    // Before the next one: a list can be of any length.
    if (!parameter.IsNumber()) throwFailure(invalidArgument("options.activation.parameters must be numbers"));
    parameters.push_back(parameter.As<Napi::Number>().DoubleValue());
  }
  return valueOrThrow(makeActivation(object.Get("name").ToString().Utf8Value(), parameters));
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
      throwFailure(invalidArgument("options.padding must be four integers, 'same' or 'valid'"));
    }
    request.paddingMode = mode == "same" ? PaddingMode::same : PaddingMode::valid;
    return;
  }
  const auto [top, left, bottom, right] = toIntegers<4>(value, "options.padding");
  request.padding = {top, left, bottom, right};
}

/** The meaning of one of a few words, or nothing for null. */
template <typename T>
std::optional<T> toNamed(const Napi::Value& value, const char* name,
                         std::initializer_list<std::pair<const char*, T>> words) {
  if (value.IsNull() || value.IsUndefined()) return std::nullopt;
  const std::string given = value.ToString();
  for (const auto& [word, meaning] : words) {
    if (given == word) return meaning;
  }
  throwFailure(invalidArgument(std::string(name) + " does not take '" + given + "'"));
}

}  // namespace

Layout toLayout(const Napi::Value& value, const char* name) {
  return toNamed<Layout>(value, name, {{"nchw", Layout::nchw}, {"nhwc", Layout::nhwc}}).value_or(Layout::nchw);
}

Precision toPrecision(const Napi::Value& value, const char* name) {
  return toNamed<Precision>(value, name,
                            {{"fp32", Precision::fp32},
                             {"tf32", Precision::tf32},
                             {"fp16", Precision::fp16},
                             {"bf16", Precision::bf16}})
      .value_or(Precision::fp32);
}

namespace {

TensorFormat toTensorFormat(const Napi::Value& value, const char* name) {
  const Napi::Object object = toObject(value, name);
  const auto type = toNamed<FloatType>(
      object.Get("type"), name,
      {{"float32", FloatType::float32}, {"float16", FloatType::float16}, {"bfloat16", FloatType::bfloat16}});
  return {type.value_or(FloatType::float32), toLayout(object.Get("layout"), name),
          toInteger(object.Get("pitch"), name)};
}

/** That of plain tensors where none is given. */
ConvFormat toConvFormat(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const Napi::Object object = toObject(value, "options.format");
  return {toTensorFormat(object.Get("input"), "options.format.input"),
          toTensorFormat(object.Get("residual"), "options.format.residual"),
          toTensorFormat(object.Get("output"), "options.format.output")};
}

ConvProblem toProblem(const Napi::Object& spec) {
  ConvRequest request;
  request.inputDims = toIntegers<4>(spec.Get("inputDims"), "input.dims");
  request.weightDims = toIntegers<4>(spec.Get("weightDims"), "weight.dims");
  request.stride = toExtent(spec.Get("stride"), "options.stride");
  request.dilation = toExtent(spec.Get("dilation"), "options.dilation");
  readPadding(spec.Get("padding"), request);
  request.groups = toInteger(spec.Get("groups"), "options.groups");
  request.format = toConvFormat(spec.Get("format"));
  return valueOrThrow(makeConvProblem(request));
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
  request.precision = toPrecision(spec.Get("precision"), "options.precision");
  request.keepsIntegers = spec.Get("keepsIntegers").ToBoolean();
  return request;
}

}  // namespace

Specification toSpecification(const Napi::Value& value) {
  const Napi::Object spec = toObject(value, "spec");
  return {
      .asked = {.problem = toProblem(spec),
                .activation = toActivation(spec.Get("activation")),
                .request = toRequest(spec)},
      .device = static_cast<int>(toInteger(spec.Get("device"), "options.device", -1, std::numeric_limits<int>::max()))};
}

namespace {

int64_t bytesOfElement(napi_typedarray_type type) {
  switch (type) {
    case napi_int8_array:
    case napi_uint8_array:
    case napi_uint8_clamped_array: return 1;
    case napi_int16_array:
    case napi_uint16_array:
    case napi_float16_array: return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array: return 4;
    case napi_float64_array:
    case napi_bigint64_array:
    case napi_biguint64_array: return 8;
    default: throwFailure(invalidArgument("there is no tensor of such a typed array"));
  }
}

}  // namespace

std::pair<void*, int64_t> toBytes(const Napi::Value& value, const char* name) {
  napi_typedarray_type type{};
  size_t length = 0;
  void* data = nullptr;
  // It fails on what is no typed array.
  if (napi_get_typedarray_info(value.Env(), value, &type, &length, &data, nullptr, nullptr) != napi_ok) {
    throwFailure(invalidArgument(std::string(name) + " must be a typed array"));
  }
  return {data, static_cast<int64_t>(length) * bytesOfElement(type)};
}

namespace {

bool holds(napi_typedarray_type array, FloatType type) {
  switch (type) {
    case FloatType::float32: return array == napi_float32_array;
    case FloatType::float16: return array == napi_float16_array || array == napi_uint16_array;
    case FloatType::bfloat16: return array == napi_uint16_array;
  }
  return false;
}

const char* arraysOf(FloatType type) {
  switch (type) {
    case FloatType::float32: return "Float32Array";
    case FloatType::float16: return "Float16Array or Uint16Array";
    case FloatType::bfloat16: return "Uint16Array";
  }
  return "";
}

void* toElements(const Napi::Value& value, const char* name, FloatType type, int64_t elements) {
  napi_typedarray_type array{};
  size_t length = 0;
  void* data = nullptr;
  // Raw, because the wrapper asks several times, and a small call has three arrays. It fails on what is no typed array.
  const napi_status status = napi_get_typedarray_info(value.Env(), value, &array, &length, &data, nullptr, nullptr);
  if (status != napi_ok || !holds(array, type)) {
    throwFailure(invalidArgument(std::string(name) + ".data must be a " + arraysOf(type)));
  }
  if (static_cast<int64_t>(length) != elements) {
    throwFailure(invalidArgument(std::string(name) + ".data has " + std::to_string(length) +
                                 " elements; the problem needs " + std::to_string(elements)));
  }
  return data;
}

}  // namespace

float* toFloats(const Napi::Value& value, const char* name, int64_t elements) {
  return static_cast<float*>(toElements(value, name, FloatType::float32, elements));
}

TypedElements toFloatsOr(FloatType type, const Napi::Value& value, const char* name, int64_t elements) {
  napi_typedarray_type array{};
  const napi_status status = napi_get_typedarray_info(value.Env(), value, &array, nullptr, nullptr, nullptr, nullptr);
  const FloatType own = status == napi_ok && array == napi_float32_array ? FloatType::float32 : type;
  return {own, toElements(value, name, own, elements)};
}

TypedElements toOptionalFloatsOr(FloatType type, const Napi::Value& value, const char* name, int64_t elements) {
  return value.IsNull() ? TypedElements{type, nullptr} : toFloatsOr(type, value, name, elements);
}

Operand toOperand(const Napi::Value& value, const char* name, FloatType type, int64_t elements, int device) {
  const std::shared_ptr<const GpuMemory> memory = value.IsTypedArray() ? nullptr : GpuBuffer::memoryOf(value);
  if (memory == nullptr) return {toElements(value, name, type, elements), nullptr};
  const int64_t needed = elements * widthOf(type);
  if (memory->device() != device || memory->bytes() != needed) {
    throwFailure(invalidArgument(std::string(name) + " has " + std::to_string(memory->bytes()) +
                                 " bytes on 'cuda:" + std::to_string(memory->device()) + "'; the problem needs " +
                                 std::to_string(needed) + " on the plan's device"));
  }
  return {nullptr, memory};
}

Operand toOptionalOperand(const Napi::Value& value, const char* name, FloatType type, int64_t elements, int device) {
  return value.IsNull() ? Operand{} : toOperand(value, name, type, elements, device);
}

Napi::Array toArray(Napi::Env env, const std::array<int64_t, 4>& dims) {
  Napi::Array array = Napi::Array::New(env, dims.size());
  for (uint32_t i = 0; i < dims.size(); ++i) array.Set(i, Napi::Number::New(env, static_cast<double>(dims[i])));
  return array;
}

}  // namespace warpconv::binding
