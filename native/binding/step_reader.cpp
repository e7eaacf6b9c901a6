#include "binding/step_reader.h"

#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "binding/checked_arguments.h"
#include "binding/failure.h"

namespace warpconv::binding {
namespace {

using namespace program;

template <typename T>
using Word = std::pair<const char*, T>;

template <typename T>
T named(const Napi::Value& value, std::span<const Word<T>> words, std::span<const Word<T>> others = {}) {
  const std::string given = value.ToString();
  for (const auto list : {words, others}) {
    for (const auto& [word, meaning] : list) {
      if (given == word) return meaning;
    }
  }
  throwFailure({StatusCode::internal, "a step has the unknown word '" + given + "'"});
}

template <typename T>
T named(const Napi::Value& value, std::initializer_list<Word<T>> words) {
  return named<T>(value, std::span<const Word<T>>(words.begin(), words.size()));
}

/** What chains and single steps have both. */
template <typename Operation>
constexpr Word<Operation> kFunctions[] = {{"add", Operation::add},
                                          {"subtract", Operation::subtract},
                                          {"multiply", Operation::multiply},
                                          {"divide", Operation::divide},
                                          {"minimum", Operation::minimum},
                                          {"maximum", Operation::maximum},
                                          {"power", Operation::power},
                                          {"prelu", Operation::prelu},
                                          {"constant", Operation::constant},
                                          {"affine", Operation::affine},
                                          {"negate", Operation::negate},
                                          {"absolute", Operation::absolute},
                                          {"relu", Operation::relu},
                                          {"leakyRelu", Operation::leakyRelu},
                                          {"clip", Operation::clip},
                                          {"sigmoid", Operation::sigmoid},
                                          {"hardSigmoid", Operation::hardSigmoid},
                                          {"hardSwish", Operation::hardSwish},
                                          {"silu", Operation::silu},
                                          {"mish", Operation::mish},
                                          {"elu", Operation::elu},
                                          {"selu", Operation::selu},
                                          {"celu", Operation::celu},
                                          {"gelu", Operation::gelu},
                                          {"geluTanh", Operation::geluTanh},
                                          {"tanh", Operation::tanh},
                                          {"softplus", Operation::softplus},
                                          {"softsign", Operation::softsign},
                                          {"exp", Operation::exp},
                                          {"log", Operation::log},
                                          {"sqrt", Operation::sqrt},
                                          {"reciprocal", Operation::reciprocal},
                                          {"floor", Operation::floor},
                                          {"ceil", Operation::ceil},
                                          {"round", Operation::round},
                                          {"erf", Operation::erf},
                                          {"sign", Operation::sign},
                                          {"sin", Operation::sin},
                                          {"cos", Operation::cos}};

/** Fills a step from an object with properties of the same names. */
class Fields {
 public:
  explicit Fields(Napi::Object object) : object_(std::move(object)) {}

  template <typename T>
  void operator()(const char* name, T& field) {
    read(object_.Get(name), field);
  }
  template <typename T>
  void optional(const char* name, T& field) {
    const Napi::Value value = object_.Get(name);
    if (!value.IsUndefined()) read(value, field);
  }

 private:
  static void read(const Napi::Value& value, int64_t& field) { field = toInteger(value, "a step's field"); }
  static void read(const Napi::Value& value, double& field) {
    if (!value.IsNumber()) throwFailure(invalidArgument("a step's field must be a number"));
    field = value.As<Napi::Number>().DoubleValue();
  }
  static void read(const Napi::Value& value, bool& field) { field = value.ToBoolean(); }
  static void read(const Napi::Value& value, Activation& field) { field = toActivation(value); }

  template <typename T>
  static void read(const Napi::Value& value, std::vector<T>& field) {
    if (readArray(value, field)) return;
    const Napi::Array list = toList(value, "a step's list");
    // One after the other: a list with holes can be of any length.
    field.clear();
    for (uint32_t i = 0; i < list.Length(); ++i) read(list.Get(i), field.emplace_back());
  }
  /** Whether it is a typed array of numbers, which may have many. */
  template <typename T>
  static bool readArray(const Napi::Value& value, std::vector<T>& field) {
    if constexpr (std::is_arithmetic_v<T>) {
      using Array = std::conditional_t<std::is_integral_v<T>, Napi::Int32Array, Napi::Float64Array>;
      if (!value.IsTypedArray()) return false;
      constexpr napi_typedarray_type kType = std::is_integral_v<T> ? napi_int32_array : napi_float64_array;
      if (value.As<Napi::TypedArray>().TypedArrayType() != kType) return false;
      const auto elements = value.As<Array>();
      field.assign(elements.Data(), elements.Data() + elements.ElementLength());
      return true;
    }
    return false;
  }
  template <typename T, size_t N>
  static void read(const Napi::Value& value, std::array<T, N>& field) {
    const Napi::Object list = toObject(value, "a step's list");
    for (uint32_t i = 0; i < N; ++i) read(list.Get(i), field[i]);
  }

  static void read(const Napi::Value& value, Buffer& field) {
    if (value.IsNull()) return;
    const Napi::Object object = toObject(value, "a step's buffer");
    field.space = named<Buffer::Space>(object.Get("space"), {{"input", Buffer::Space::input},
                                                             {"output", Buffer::Space::output},
                                                             {"constant", Buffer::Space::constant},
                                                             {"arena", Buffer::Space::arena}});
    field.index = toInteger(object.Get("index"), "a buffer's index");
    field.offset = toInteger(object.Get("offset"), "a buffer's offset");
  }
  static void read(const Napi::Value& value, ElementwiseStep::Instruction& field) {
    Fields fields(toObject(value, "an instruction"));
    field.fields(fields);
  }
  static void read(const Napi::Value& value, FloatType& field) {
    field = named<FloatType>(
        value, {{"float32", FloatType::float32}, {"float16", FloatType::float16}, {"bfloat16", FloatType::bfloat16}});
  }
  static void read(const Napi::Value& value, Layout& field) {
    field = named<Layout>(value, {{"nchw", Layout::nchw}, {"nhwc", Layout::nhwc}});
  }
  static void read(const Napi::Value& value, TensorFormat& field) {
    Fields fields(toObject(value, "a format"));
    fields("type", field.type), fields("layout", field.layout), fields("pitch", field.pitch);
  }
  static void read(const Napi::Value& value, PoolStep::Mode& field) {
    field = named<PoolStep::Mode>(value, {{"maximum", PoolStep::Mode::maximum}, {"average", PoolStep::Mode::average}});
  }
  static void read(const Napi::Value& value, ReduceStep::Mode& field) {
    using Mode = ReduceStep::Mode;
    field = named<Mode>(value, {{"sum", Mode::sum},
                                {"mean", Mode::mean},
                                {"maximum", Mode::maximum},
                                {"minimum", Mode::minimum},
                                {"product", Mode::product},
                                {"sumOfSquares", Mode::sumOfSquares},
                                {"argMaximum", Mode::argMaximum},
                                {"argMinimum", Mode::argMinimum}});
  }
  static void read(const Napi::Value& value, ElementType& field) {
    field = named<ElementType>(value, {{"float32", ElementType::float32},
                                       {"float64", ElementType::float64},
                                       {"float16", ElementType::float16},
                                       {"bfloat16", ElementType::bfloat16},
                                       {"int8", ElementType::int8},
                                       {"int16", ElementType::int16},
                                       {"int32", ElementType::int32},
                                       {"int64", ElementType::int64},
                                       {"uint8", ElementType::uint8},
                                       {"uint16", ElementType::uint16},
                                       {"uint32", ElementType::uint32},
                                       {"uint64", ElementType::uint64},
                                       {"bool", ElementType::boolean},
                                       {"float8e4m3fn", ElementType::float8e4m3fn},
                                       {"float8e4m3fnuz", ElementType::float8e4m3fnuz},
                                       {"float8e5m2", ElementType::float8e5m2},
                                       {"float8e5m2fnuz", ElementType::float8e5m2fnuz},
                                       {"float8e8m0", ElementType::float8e8m0},
                                       {"float4e2m1", ElementType::float4e2m1},
                                       {"int4", ElementType::int4},
                                       {"uint4", ElementType::uint4},
                                       {"int2", ElementType::int2},
                                       {"uint2", ElementType::uint2}});
  }
  static void read(const Napi::Value& value, IndexedStep::Mode& field) {
    using Mode = IndexedStep::Mode;
    field = named<Mode>(value, {{"gather", Mode::gather},
                                {"assign", Mode::assign},
                                {"add", Mode::add},
                                {"multiply", Mode::multiply},
                                {"minimum", Mode::minimum},
                                {"maximum", Mode::maximum}});
  }
  static void read(const Napi::Value& value, ScanStep::Mode& field) {
    field = named<ScanStep::Mode>(value, {{"sum", ScanStep::Mode::sum}, {"product", ScanStep::Mode::product}});
  }
  static void read(const Napi::Value& value, RecurrentStep::Cell& field) {
    using Cell = RecurrentStep::Cell;
    field = named<Cell>(value, {{"rnn", Cell::rnn}, {"gru", Cell::gru}, {"lstm", Cell::lstm}});
  }
  static void read(const Napi::Value& value, RecurrentStep::Function& field) {
    Fields fields(toObject(value, "a function"));
    field.fields(fields);
  }
  static void read(const Napi::Value& value, MapStep::Operation& field) {
    using Operation = MapStep::Operation;
    static constexpr Word<Operation> kOwn[] = {{"identity", Operation::identity},
                                               {"modulo", Operation::modulo},
                                               {"remainder", Operation::remainder},
                                               {"bitAnd", Operation::bitAnd},
                                               {"bitOr", Operation::bitOr},
                                               {"bitXor", Operation::bitXor},
                                               {"shiftLeft", Operation::shiftLeft},
                                               {"shiftRight", Operation::shiftRight},
                                               {"equal", Operation::equal},
                                               {"less", Operation::less},
                                               {"lessOrEqual", Operation::lessOrEqual},
                                               {"greater", Operation::greater},
                                               {"greaterOrEqual", Operation::greaterOrEqual},
                                               {"logicalAnd", Operation::logicalAnd},
                                               {"logicalOr", Operation::logicalOr},
                                               {"logicalXor", Operation::logicalXor},
                                               {"select", Operation::select},
                                               {"bitNot", Operation::bitNot},
                                               {"logicalNot", Operation::logicalNot},
                                               {"isNaN", Operation::isNaN},
                                               {"isInfinite", Operation::isInfinite},
                                               {"thresholdedRelu", Operation::thresholdedRelu},
                                               {"shrink", Operation::shrink},
                                               {"tan", Operation::tan},
                                               {"asin", Operation::asin},
                                               {"acos", Operation::acos},
                                               {"atan", Operation::atan},
                                               {"sinh", Operation::sinh},
                                               {"cosh", Operation::cosh},
                                               {"scaledTanh", Operation::scaledTanh},
                                               {"asinh", Operation::asinh},
                                               {"acosh", Operation::acosh},
                                               {"atanh", Operation::atanh}};
    field = named<Operation>(value, kOwn, kFunctions<Operation>);
  }
  static void read(const Napi::Value& value, ElementwiseStep::Operation& field) {
    field = named<ElementwiseStep::Operation>(value, kFunctions<ElementwiseStep::Operation>);
  }

  const Napi::Object object_;
};

template <typename Kind>
Step toStepOf(const Napi::Object& object) {
  Kind step;
  Fields fields(object);
  step.fields(fields);
  return step;
}

template <>
Step toStepOf<ConvolutionStep>(const Napi::Object& object) {
  Specification specification = toSpecification(object.Get("convolution"));
  ConvolutionStep step;
  step.problem = specification.asked.problem;
  step.activation = specification.asked.activation;
  step.request = std::move(specification.asked.request);
  Fields fields(object);
  fields("input", step.input), fields("weight", step.weight), fields("scale", step.scale);
  fields("bias", step.bias), fields("residual", step.residual), fields("output", step.output);
  return step;
}

/** The alternative of Step whose name is `kind`. */
template <size_t kIndex = 0>
std::optional<Step> toAlternative(const std::string& kind, const Napi::Object& object) {
  if constexpr (kIndex < std::variant_size_v<Step>) {
    using Kind = std::variant_alternative_t<kIndex, Step>;
    if (kind == Kind::kKind) return toStepOf<Kind>(object);
    return toAlternative<kIndex + 1>(kind, object);
  } else {
    return std::nullopt;
  }
}

}  // namespace

Step toStep(const Napi::Value& value) {
  const Napi::Object object = toObject(value, "a step");
  const std::string kind = object.Get("kind").ToString();
  std::optional<Step> step = toAlternative(kind, object);
  if (!step) throwFailure({StatusCode::internal, "there is no step of the kind '" + kind + "'"});
  return std::move(*step);
}

}  // namespace warpconv::binding
