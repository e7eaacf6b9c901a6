#include "program/verify.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "devices/cpu_info.h"
#include "executor/executor.h"

using namespace warpconv;
using namespace warpconv::program;

namespace {

/** Small numbers, with now and then one that no step should take. */
class Random {
 public:
  Random() : seed_(chooseSeed()), engine_(seed_) { MESSAGE("WARPCONV_FUZZ_SEED=" << seed_); }

  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool chance(int64_t of) { return from(1, of) == 1; }
  int64_t count() { return chance(60) ? extreme() : from(0, 4); }
  int64_t extreme() {
    constexpr int64_t kExtremes[] = {-1,
                                     int64_t{1} << 31,
                                     (int64_t{1} << 31) - 1,
                                     int64_t{1} << 32,
                                     -(1 << 30),
                                     int64_t{1} << 40,
                                     (int64_t{1} << 53) - 1,
                                     -(int64_t{1} << 53),
                                     INT64_MIN,
                                     INT64_MAX,
                                     9,
                                     64};
    return kExtremes[engine_() % std::size(kExtremes)];
  }

 private:
  static uint64_t chooseSeed() {
    const char* given = std::getenv("WARPCONV_FUZZ_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  }

  const uint64_t seed_;
  std::mt19937_64 engine_;
};

constexpr int64_t kTensors = 2;

/** Fills the fields of any step. */
class Filler {
 public:
  explicit Filler(Random& random) : random_(random), axes_(random.from(1, 3)) {}

  void operator()(const char*, int64_t& field) { field = random_.count(); }
  void operator()(const char*, double& field) { field = static_cast<double>(random_.from(-2, 3)); }
  void operator()(const char*, bool& field) { field = random_.chance(2); }
  void operator()(const char*, Activation& field) { field = {}; }
  void operator()(const char* name, Buffer& field) {
    if (random_.chance(40)) return;
    constexpr Buffer::Space kSpaces[] = {Buffer::Space::output, Buffer::Space::arena, Buffer::Space::input,
                                         Buffer::Space::constant};
    const bool isWritten = std::string(name) == "output" && !random_.chance(20);
    field.space = kSpaces[random_.from(0, isWritten ? 1 : 3)];
    field.index = field.space == Buffer::Space::arena ? 0 : random_.from(0, kTensors - 1);
    if (random_.chance(60)) field.index = random_.extreme();
    field.offset = random_.chance(60) ? random_.extreme() : random_.chance(2) ? 0 : 8 * random_.from(0, 3);
  }
  void operator()(const char*, FloatType& field) { field = static_cast<FloatType>(random_.from(0, 2)); }
  void operator()(const char*, TensorFormat& field) {
    if (random_.chance(2)) return;
    (*this)("type", field.type);
    field.layout = random_.chance(4) ? Layout::nchw : Layout::nhwc;
    field.pitch = random_.chance(2) ? 0 : random_.count();
  }
  /** Half of the steps are without. */
  template <typename T>
  void optional(const char* name, T& field) {
    if (random_.chance(2)) (*this)(name, field);
  }
  void operator()(const char*, PoolStep::Mode& field) { field = static_cast<PoolStep::Mode>(random_.from(0, 1)); }
  void operator()(const char*, ReduceStep::Mode& field) { field = static_cast<ReduceStep::Mode>(random_.from(0, 7)); }
  void operator()(const char*, ScanStep::Mode& field) { field = static_cast<ScanStep::Mode>(random_.from(0, 1)); }
  void operator()(const char*, IndexedStep::Mode& field) { field = static_cast<IndexedStep::Mode>(random_.from(0, 5)); }
  void operator()(const char*, ElementType& field) {
    field = static_cast<ElementType>(random_.from(0, static_cast<int64_t>(ElementType::boolean)));
  }
  void operator()(const char*, MapStep::Operation& field) {
    field = static_cast<MapStep::Operation>(random_.from(0, static_cast<int64_t>(MapStep::Operation::softsign)));
  }
  void operator()(const char*, ElementwiseStep::Operation& field) {
    field =
        static_cast<ElementwiseStep::Operation>(random_.from(0, static_cast<int64_t>(ElementwiseStep::Operation::cos)));
  }
  void operator()(const char*, ElementwiseStep::Instruction& field) {
    field.fields(*this);
    field.a = random_.chance(60) ? random_.extreme() : random_.from(0, 1);
    field.b = random_.chance(60) ? random_.extreme() : random_.from(0, 1);
  }
  void operator()(const char*, RecurrentStep::Cell& field) {
    field = static_cast<RecurrentStep::Cell>(random_.from(0, 2));
  }
  void operator()(const char*, RecurrentStep::Function& field) { field.fields(*this); }
  template <typename T, size_t N>
  void operator()(const char* name, std::array<T, N>& field) {
    for (T& one : field) (*this)(name, one);
  }
  /** Lists of one step are mostly of one length. */
  template <typename T>
  void operator()(const char* name, std::vector<T>& field) {
    field.resize(static_cast<size_t>(random_.chance(40) ? random_.from(0, 5) : axes_));
    for (T& one : field) (*this)(name, one);
  }

 private:
  Random& random_;
  const int64_t axes_;
};

template <typename Kind>
Step randomStep(Random& random) {
  Kind step;
  Filler filler(random);
  step.fields(filler);
  return step;
}

template <>
Step randomStep<MatmulStep>(Random& random) {
  MatmulStep step;
  Filler filler(random);
  step.fields(filler);
  if (random.chance(20)) return step;
  for (auto* strides : {&step.leftStrides, &step.rightStrides, &step.biasStrides}) {
    strides->resize(step.batch.size() + 2, 1);
  }
  return step;
}

template <>
Step randomStep<InterpolateStep>(Random& random) {
  InterpolateStep step;
  Filler filler(random);
  step.fields(filler);
  if (random.chance(20) || step.count < 0 || step.count > 8 || step.taps < 0 || step.taps > 8) return step;
  step.positions.resize(static_cast<size_t>(step.count * step.taps));
  step.weights.resize(step.positions.size());
  for (int64_t& position : step.positions) position = random.from(0, step.axis > 0 && step.axis < 9 ? step.axis : 1);
  return step;
}

template <>
Step randomStep<NormalizeStep>(Random& random) {
  NormalizeStep step;
  Filler filler(random);
  step.fields(filler);
  const auto isSmall = [](int64_t value) { return value >= 0 && value < 9; };
  if (!random.chance(20) && isSmall(step.channels) && isSmall(step.inner)) step.count = step.channels * step.inner;
  return step;
}

template <>
Step randomStep<IndexedStep>(Random& random) {
  IndexedStep step;
  Filler filler(random);
  step.fields(filler);
  if (random.chance(20)) return step;
  step.serialAxes = random.from(0, static_cast<int64_t>(step.extents.size()));
  step.dataCount = random.from(1, 80), step.indexCount = random.from(1, 40);
  return step;
}

template <>
Step randomStep<TypedMatmulStep>(Random& random) {
  TypedMatmulStep step;
  Filler filler(random);
  step.fields(filler);
  if (random.chance(20)) return step;
  for (auto* strides : {&step.leftStrides, &step.rightStrides}) strides->resize(step.batch.size() + 2, 1);
  return step;
}

template <>
Step randomStep<ConvolutionStep>(Random& random) {
  ConvolutionStep step;
  ConvRequest request;
  for (int64_t& extent : request.inputDims) extent = random.from(1, 3);
  for (int64_t& extent : request.weightDims) extent = random.from(1, 2);
  request.weightDims[1] = request.inputDims[1];
  request.padding = {random.from(0, 2), random.from(0, 2), random.from(0, 2), random.from(0, 2)};
  const Result<ConvProblem> problem = makeConvProblem(request);
  if (!problem.isOk()) return randomStep<ConvolutionStep>(random);
  step.problem = problem.value();
  Filler filler(random);
  filler("input", step.input), filler("weight", step.weight), filler("output", step.output);
  if (random.chance(2)) filler("bias", step.bias);
  if (random.chance(4)) filler("residual", step.residual);
  return step;
}

/** Small enough for the memory that there is: the tensors of more are larger. */
template <>
Step randomStep<RecurrentStep>(Random& random) {
  RecurrentStep step;
  Filler filler(random);
  step.fields(filler);
  if (random.chance(20)) return step;
  step.steps = random.from(1, 3), step.batch = random.from(1, 2), step.hidden = random.from(1, 2);
  for (Buffer* one : {&step.productBias, &step.peepholes, &step.initialHidden, &step.initialCell, &step.lengths}) {
    if (random.chance(2)) *one = {};
  }
  return step;
}

template <>
Step randomStep<RoiAlignStep>(Random& random) {
  RoiAlignStep step;
  Filler filler(random);
  step.fields(filler);
  if (!random.chance(20)) step.type = random.chance(2) ? ElementType::float32 : ElementType::float64;
  return step;
}

using Maker = Step (*)(Random&);
constexpr Maker kMakers[] = {
    randomStep<ConvolutionStep>,   randomStep<MatmulStep>,  randomStep<ElementwiseStep>, randomStep<PoolStep>,
    randomStep<ReduceStep>,        randomStep<SoftmaxStep>, randomStep<NormalizeStep>,   randomStep<LocalResponseStep>,
    randomStep<SqueezeExciteStep>, randomStep<CopyStep>,    randomStep<FillStep>,        randomStep<GatherStep>,
    randomStep<InterpolateStep>,   randomStep<FormatStep>,  randomStep<MapStep>,         randomStep<IndexedStep>,
    randomStep<SortStep>,          randomStep<ScanStep>,    randomStep<TypedReduceStep>, randomStep<TypedMatmulStep>,
    randomStep<RecurrentStep>,     randomStep<RoiAlignStep>};

constexpr int64_t kShort = 1'000'000;

/** Whether it takes no time without end, which strides of 0 allow: outputs are small, but not the sums that make them.
 */
template <typename Kind>
bool isShortKind(const Kind&) {
  return true;
}
bool isShortKind(const MatmulStep& step) { return step.k <= kShort; }
bool isShortKind(const TypedMatmulStep& step) { return step.k <= kShort; }
bool isShortKind(const RoiAlignStep& step) { return step.samples <= 1000; }
/** Scattering, any number of positions may meet in one place. */
bool isShortKind(const IndexedStep& step) {
  int64_t positions = 1;
  for (const int64_t extent : step.extents) positions *= extent;
  return positions <= kShort;
}

bool isShort(const Step& step) {
  return std::visit([](const auto& kind) { return isShortKind(kind); }, step);
}

/** Memory of exactly the sizes that a program is told, so that a sanitizer sees whatever lies outside. */
struct Memories {
  std::vector<std::vector<int64_t>> memory;
  std::vector<int64_t> bytes;

  explicit Memories(Random& random) {
    for (int64_t i = 0; i < kTensors; ++i) {
      memory.emplace_back(static_cast<size_t>(random.from(0, 40)), 1);
      bytes.push_back(static_cast<int64_t>(8 * memory.back().size()));
    }
  }
  std::vector<void*> addresses() {
    std::vector<void*> all;
    for (auto& one : memory) all.push_back(one.data());
    return all;
  }
};

}  // namespace

TEST_CASE("a program that is accepted stays inside of its memory, fuzzed") {
  Random random;
  auto executor = Executor::shared();
  CpuBackend backend(*executor, cpuInfo());
  const char* rounds = std::getenv("WARPCONV_VERIFY_FUZZ");
  const int64_t programs = rounds != nullptr ? std::atoll(rounds) : 20'000;
  std::map<std::string, int64_t> accepted, refused;
  for (int64_t i = 0; i < programs; ++i) {
    Memories inputs(random), outputs(random), constants(random);
    ProgramSpec spec;
    spec.steps.push_back(kMakers[static_cast<size_t>(i) % std::size(kMakers)](random));
    spec.inputBytes = inputs.bytes, spec.outputBytes = outputs.bytes, spec.constantBytes = constants.bytes;
    for (void* address : constants.addresses()) spec.constants.push_back(address);
    spec.arenaBytes = 8 * random.from(0, 40);
    const std::string kind = std::visit([](const auto& step) { return std::string(step.kKind); }, spec.steps[0]);
    const Status status = verify(spec);
    ++(status.isOk() ? accepted : refused)[kind];
    if (!status.isOk()) {
      CHECK(status.code() == StatusCode::internal);
      continue;
    }
    if (!isShort(spec.steps[0])) continue;
    const auto prepared = backend.prepareProgram(std::move(spec), backend.makeStore().value());
    REQUIRE(prepared.isOk());
    const std::vector<void*> in = inputs.addresses(), out = outputs.addresses();
    const std::vector<const void*> read(in.begin(), in.end());
    const Status ran = prepared.value()->run({read, out}, nullptr, nullptr);
    const bool isExpected = ran.isOk() || ran.code() == StatusCode::invalidArgument;
    CHECK_MESSAGE(isExpected, kind << ": " << ran.message());
  }
  for (const Maker& maker : kMakers) {
    const Step step = maker(random);
    const std::string kind = std::visit([](const auto& one) { return std::string(one.kKind); }, step);
    MESSAGE(kind << ": " << accepted[kind] << " accepted, " << refused[kind] << " refused");
    CHECK(accepted[kind] > 0);
    CHECK(refused[kind] > 0);
  }
}

TEST_CASE("there is one arena: what lies in it overlaps whatever the numbers of its buffers") {
  GatherStep gather;
  gather.indices = {Buffer::Space::input, 0, 0};
  gather.input = {Buffer::Space::arena, 0, 0};
  gather.output = {Buffer::Space::arena, 1, 8};
  gather.outer = gather.inner = 1, gather.axis = gather.count = 4, gather.bytes = 4;
  ProgramSpec spec;
  spec.inputBytes = {32};
  spec.arenaBytes = 64;
  spec.steps = {gather};
  CHECK_FALSE(verify(spec).isOk());
  std::get<GatherStep>(spec.steps[0]).output.offset = 16;
  CHECK(verify(spec).isOk());
}

TEST_CASE("a copy that writes an element again and again is refused") {
  std::vector<float> values(2);
  CopyStep copy;
  copy.input = {Buffer::Space::input, 0, 0};
  copy.output = {Buffer::Space::output, 0, 0};
  copy.bytes = 4;
  copy.extents = {1, 2};
  copy.inputStrides = {0, 1};
  copy.outputStrides = {0, 1};
  ProgramSpec spec;
  spec.inputBytes = spec.outputBytes = {8};
  spec.steps = {copy};
  CHECK(verify(spec).isOk());
  copy.extents = {int64_t{1} << 36, 2};
  spec.steps = {copy};
  CHECK(verify(spec).message().find("more than once") != std::string::npos);
}

namespace {

/** Scatters rows of 2 indices to data of 4 x 5, each into a place of its own. */
struct Scattering {
  IndexedStep step;
  ProgramSpec spec;

  Scattering() {
    step.mode = IndexedStep::Mode::assign;
    step.type = ElementType::float32;
    step.extents = {3}, step.valueStrides = {1}, step.dataStrides = {0}, step.indexStrides = {2};
    step.serialAxes = 1;
    step.axes = {4, 5}, step.axisStrides = {5, 1};
    step.dataCount = 20, step.indexCount = 6;
    step.input = {Buffer::Space::input, 0, 0}, step.indices = {Buffer::Space::input, 1, 0};
    step.output = {Buffer::Space::output, 0, 0};
    spec.inputBytes = {12, 48}, spec.outputBytes = {80};
  }

  std::string complaint() {
    spec.steps = {step};
    return std::string(verify(spec).message());
  }
};

bool contains(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("indices that would reach beyond the data, or lie beyond their tensor, are refused") {
  CHECK(Scattering().complaint().empty());
  const auto complaintOf = [](const auto& change) {
    Scattering scattering;
    change(scattering.step);
    return scattering.complaint();
  };
  CHECK(contains(complaintOf([](IndexedStep& x) { x.dataCount = 19; }), "reaches outside of its data"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.dataStrides = {1}; }), "reaches outside of its data"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.axisStrides = {-5, 1}; }), "reaches outside of its data"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.axes = {4, 6}; }), "reaches outside of its data"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.axes = {4, 0}; }), "without elements"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.axes = {4}; }), "not a stride for each"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.axes = x.axisStrides = {}; }), "no component"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.axes = x.axisStrides = std::vector<int64_t>(9, 1); }), "too many"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.indexCount = 5; }), "beyond its indices"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.indexStrides = {-2}; }), "beyond its indices"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.indexCount = 7; }), "outside of a buffer"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.type = ElementType::float64; }), "outside of a buffer"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.valueStrides = {2}; }), "outside of a buffer"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.serialAxes = 2; }), "more serial axes"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.extents = {0}; }), "makes no element"));
  CHECK(contains(complaintOf([](IndexedStep& x) { x.input = x.output; }), "writes over what it reads"));
}

TEST_CASE("a gather that writes an element again and again is refused") {
  Scattering gathering;
  IndexedStep& x = gathering.step;
  x.mode = IndexedStep::Mode::gather;
  x.input = {Buffer::Space::input, 0, 0};
  gathering.spec.inputBytes[0] = 80;
  CHECK(gathering.complaint().empty());
  x.valueStrides = {0};
  CHECK(contains(gathering.complaint(), "more than once"));
}

TEST_CASE("a map of as many operands as its operation takes, each with a type and strides") {
  MapStep map;
  map.operation = MapStep::Operation::select;
  map.types = {ElementType::boolean, ElementType::float64, ElementType::float64};
  map.outputType = map.compute = ElementType::float64;
  map.extents = {4};
  map.operands = {{Buffer::Space::input, 0, 0}, {Buffer::Space::input, 1, 0}, {Buffer::Space::input, 1, 0}};
  map.strides = {{1}, {1}, {0}};
  map.output = {Buffer::Space::output, 0, 0};
  const auto complaintOf = [](const MapStep& step) {
    ProgramSpec spec;
    spec.inputBytes = {4, 32}, spec.outputBytes = {32};
    spec.steps = {step};
    return std::string(verify(spec).message());
  };
  CHECK(complaintOf(map).empty());
  MapStep wide = map;
  wide.types[0] = ElementType::int16;
  CHECK(contains(complaintOf(wide), "outside of a buffer"));
  MapStep untyped = map;
  untyped.types.pop_back();
  CHECK(contains(complaintOf(untyped), "a type and strides for each operand"));
  MapStep few = map;
  few.operands.pop_back(), few.types.pop_back(), few.strides.pop_back();
  CHECK(contains(complaintOf(few), "not as many operands as its operation takes"));
  few.operation = MapStep::Operation::logicalXor;
  CHECK(complaintOf(few).empty());
  few.operands.pop_back(), few.types.pop_back(), few.strides.pop_back();
  CHECK(contains(complaintOf(few), "not as many operands as its operation takes"));
  few.operation = MapStep::Operation::negate;
  CHECK(complaintOf(few).empty());
  MapStep many = map;
  many.operands.push_back(map.operands[1]), many.types.push_back(map.types[1]), many.strides.push_back({1});
  CHECK(contains(complaintOf(many), "too many"));
}

namespace {

/** From the first 8 of 24 channels of 4 pixels, in halves, to the next 8. */
FormatStep betweenChannels() {
  FormatStep step;
  step.channels = 8, step.area = 4;
  step.from = step.to = {FloatType::float16, Layout::nhwc, 24};
  step.input = {Buffer::Space::arena, 0, 0}, step.output = {Buffer::Space::arena, 0, 16};
  return step;
}

std::string complaintOf(Step step) {
  ProgramSpec spec;
  spec.arenaBytes = 4 * 24 * 2;
  spec.steps = {std::move(step)};
  return std::string(verify(spec).message());
}

}  // namespace

TEST_CASE("channels next to each other in the pixels of one tensor do not overlap") {
  CHECK(complaintOf(betweenChannels()).empty());
  FormatStep last = betweenChannels();
  last.output.offset = 32;
  CHECK(complaintOf(last).empty());
  FormatStep before = last;
  std::swap(before.input, before.output);
  CHECK(complaintOf(before).empty());
  FormatStep within = betweenChannels();
  within.output.offset = 14;
  CHECK(contains(complaintOf(within), "writes over what it reads"));
  // The last channels and the first of the next pixel
  FormatStep across = betweenChannels();
  across.output.offset = 40, across.area = 3;
  CHECK(contains(complaintOf(across), "writes over what it reads"));
  FormatStep other = betweenChannels();
  other.to.pitch = 16;
  CHECK(contains(complaintOf(other), "writes over what it reads"));
  FormatStep beyond = last;
  beyond.output.offset = 34;
  CHECK(contains(complaintOf(beyond), "reaches outside of a buffer"));
  FormatStep narrow = betweenChannels();
  narrow.to.pitch = 7;
  CHECK(contains(complaintOf(narrow), "has pixels that overlap"));
}

TEST_CASE("an elementwise step writes channels between those that it reads") {
  ElementwiseStep step;
  step.extents = {4, 8};
  step.operands = {{Buffer::Space::arena, 0, 0}};
  step.strides = {{24, 1}};
  step.code = {{ElementwiseStep::Operation::relu, 0, 0, 0, 0}};
  step.types = {FloatType::float16};
  step.outputType = FloatType::float16;
  step.outputStrides = {24, 1};
  step.output = {Buffer::Space::arena, 0, 16};
  CHECK(complaintOf(step).empty());
  ElementwiseStep wide = step;
  wide.extents = {4, 9};
  CHECK(contains(complaintOf(wide), "writes over what it reads"));
  ElementwiseStep untyped = step;
  untyped.types = {FloatType::float16, FloatType::float32};
  CHECK(contains(complaintOf(untyped), "a type for each operand"));
  ElementwiseStep over = step;
  over.output.offset = 0;
  CHECK(contains(complaintOf(over), "writes over what it reads"));
}

TEST_CASE("pools and reductions of halves are of the layouts and modes that there are") {
  PoolStep pool;
  pool.planes = 16, pool.channels = 8;
  pool.inputFormat = pool.outputFormat = {FloatType::bfloat16, Layout::nhwc, 0};
  pool.input = {Buffer::Space::arena, 0, 0}, pool.output = {Buffer::Space::arena, 0, 64};
  CHECK(complaintOf(pool).empty());
  PoolStep uneven = pool;
  uneven.planes = 12;
  CHECK(contains(complaintOf(uneven), "another number of channels"));
  PoolStep mixed = pool;
  mixed.outputFormat.type = FloatType::float16;
  CHECK(contains(complaintOf(mixed), "another type"));
  PoolStep planes = pool;
  planes.inputFormat.layout = planes.outputFormat.layout = Layout::nchw;
  CHECK(contains(complaintOf(planes), "formats that pools do not take"));
  ReduceStep reduce;
  reduce.mode = ReduceStep::Mode::mean, reduce.reduced = 4, reduce.inner = 8;
  reduce.type = FloatType::float16, reduce.pitch = 16;
  reduce.input = {Buffer::Space::arena, 0, 0}, reduce.output = {Buffer::Space::arena, 0, 128};
  CHECK(complaintOf(reduce).empty());
  reduce.mode = ReduceStep::Mode::product;
  CHECK(contains(complaintOf(reduce), "no such mode"));
}
