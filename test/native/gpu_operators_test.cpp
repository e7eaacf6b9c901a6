#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cuda/operators/copy_plan.h"
#include "cuda/operators/elementwise_plan.h"
#include "cuda/operators/limits.h"
#include "cuda/operators/lines.h"
#include "cuda/operators/trigonometry.h"
#include "support/elementwise_functions.h"
#include "support/operators_reference.h"
#include "support/typed_elements.h"

// Steps are given what a test is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace warpconv;
using namespace warpconv::program;
namespace gpu = warpconv::cuda::operators;

namespace {

size_t size(int64_t count) { return static_cast<size_t>(count); }

class Random {
 public:
  Random() : seed_(std::random_device{}()), engine_(seed_) { MESSAGE("seed " << seed_); }
  int64_t from(int64_t least, int64_t most) { return least + static_cast<int64_t>(engine_() % size(most - least + 1)); }
  int64_t pick(std::initializer_list<int64_t> choices) { return choices.begin()[engine_() % choices.size()]; }
  bool maybe() { return engine_() % 2 == 0; }
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }
  std::mt19937& engine() { return engine_; }

 private:
  const unsigned seed_;
  std::mt19937 engine_;
};

/** The input byte that each output byte comes from. */
using Moves = std::map<int64_t, int64_t>;

void addMove(Moves& moves, int64_t bytes, int64_t input, int64_t output) {
  for (int64_t i = 0; i < bytes; ++i) {
    const bool isNew = moves.emplace(output * bytes + i, input * bytes + i).second;
    REQUIRE(isNew);
  }
}

Moves movesOf(const CopyStep& step) {
  Moves moves;
  test::forEachPosition(step.extents, [&](const std::vector<int64_t>& position) {
    addMove(moves, step.bytes, test::offsetAt(position, step.inputStrides),
            test::offsetAt(position, step.outputStrides));
  });
  return moves;
}

Moves movesOf(const gpu::CopyPlan& plan) {
  Moves moves;
  int offsets[2];
  for (int i = 0; i < plan.positions.count && !plan.transpose; ++i) {
    plan.positions.find(i, offsets);
    addMove(moves, plan.word, offsets[0], offsets[1]);
  }
  if (!plan.transpose) return moves;
  const gpu::Transpose& x = *plan.transpose;
  const int rowTiles = (x.rows + gpu::Transpose::kTile - 1) / gpu::Transpose::kTile;
  const int columnTiles = (x.columns + gpu::Transpose::kTile - 1) / gpu::Transpose::kTile;
  CHECK(x.blocks == int64_t{x.matrices.count} * rowTiles * columnTiles);
  for (int matrix = 0; matrix < x.matrices.count; ++matrix) {
    x.matrices.find(matrix, offsets);
    for (int row = 0; row < x.rows; ++row) {
      for (int column = 0; column < x.columns; ++column) {
        addMove(moves, plan.word, offsets[0] + row + column * x.columnStride, offsets[1] + column + row * x.rowStride);
      }
    }
  }
  return moves;
}

}  // namespace

TEST_CASE("a GPU's copies move every byte once, to where the step has it, in words that lie on their boundary") {
  Random random;
  int transposes = 0, wide = 0;
  for (int round = 0; round < 300; ++round) {
    CopyStep step;
    step.bytes = random.pick({1, 2, 4, 8});
    int64_t count = 1;
    for (int64_t axes = random.from(0, 4); axes > 0 && count < 2000; --axes) {
      step.extents.push_back(random.pick({0, 1, 2, 3, 4, 8, 9, 16, 33}));
      if (random.maybe()) step.extents.back() = 16;
      count *= step.extents.back();
    }
    const auto strides = [&] {
      std::vector<size_t> order;
      for (size_t i = 0; i < step.extents.size(); ++i) {
        order.insert(order.begin() + random.from(0, static_cast<int64_t>(i)), i);
      }
      std::vector<int64_t> result(step.extents.size());
      int64_t elements = 1;
      for (size_t i = step.extents.size(); i-- > 0;) {
        result[order[i]] = elements;
        elements *= std::max<int64_t>(1, step.extents[order[i]]) + (random.from(0, 4) == 0 ? 2 : 0);
      }
      return result;
    };
    step.inputStrides = strides(), step.outputStrides = strides();
    const auto input = static_cast<uintptr_t>(step.bytes * random.pick({0, 0, 1, 2, 4}));
    const auto output = static_cast<uintptr_t>(step.bytes * random.pick({0, 0, 1, 2, 4}));
    const gpu::CopyPlan plan = gpu::planCopy(step, input, output);
    const Moves moves = movesOf(plan);
    REQUIRE(moves == movesOf(step));
    const auto word = static_cast<uintptr_t>(plan.word);
    CHECK((input % word == 0 && output % word == 0));
    transposes += plan.transpose.has_value();
    wide += plan.word > step.bytes;
  }
  CHECK(transposes > 5);
  CHECK(wide > 5);
}

TEST_CASE("a GPU's chains of instructions are exact on integers, one element or four at a time") {
  Random random;
  using Operation = ElementwiseStep::Operation;
  const Operation exact[] = {Operation::add,    Operation::subtract, Operation::minimum,
                             Operation::affine, Operation::relu,     Operation::constant};
  int packs = 0;
  for (int round = 0; round < 500; ++round) {
    ElementwiseStep step;
    int64_t count = 1;
    for (int64_t axes = random.from(0, 4); axes > 0 && count < 500; --axes) {
      step.extents.push_back(random.pick({1, 2, 3, 4, 8, 12}));
      count *= step.extents.back();
    }
    std::vector<std::vector<float>> operands;
    // All of the addresses are multiples of 16 bytes, or none.
    alignas(16) std::array<std::array<float, 8192>, ElementwiseStep::kMostOperands> memory;
    std::vector<const float*> addresses;
    const int64_t shift = random.pick({0, 0, 4, 1});
    for (int64_t i = random.from(1, ElementwiseStep::kMostOperands); i > 0; --i) {
      std::vector<int64_t> strides(step.extents.size());
      int64_t stride = 1;
      const bool dense = random.maybe();
      for (size_t axis = strides.size(); axis-- > 0;) {
        const bool repeats = !dense && random.maybe();
        strides[axis] = repeats ? 0 : stride;
        if (!repeats) stride *= step.extents[axis];
      }
      auto& values = operands.emplace_back(size(stride));
      for (float& value : values) value = static_cast<float>(random.from(-9, 9));
      float* const address = memory[operands.size() - 1].data() + shift;
      std::copy(values.begin(), values.end(), address);
      addresses.push_back(address);
      step.operands.emplace_back();
      step.strides.push_back(std::move(strides));
    }
    for (int64_t i = random.pick({0, 1, 5, 14}); i > 0; --i) {
      const auto values = static_cast<int64_t>(operands.size() + step.code.size());
      step.code.push_back({exact[random.from(0, 5)], random.from(0, values - 1), random.from(0, values - 1), 1,
                           static_cast<double>(random.from(-3, 3))});
    }
    std::vector<float> output(size(count) + 8);
    auto* to = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(output.data()) + 15) / 16 * 16);
    const gpu::ElementwisePlan plan = gpu::planElementwise(step, addresses, to);
    const gpu::ElementwiseArguments& x = plan.arguments;
    const auto compute = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      std::array<gpu::Pack<kWidth>, ElementwiseStep::kMostInstructions> slots;
      for (int pack = 0; pack < x.packs; ++pack) {
        const auto load = [&](int operand) {
          const auto& from = x.operands[operand];
          gpu::Pack<kWidth> values;
          const float* const data = from.data + gpu::packOffset(x, from, pack, kWidth);
          CHECK((kWidth == 1 || from.repeats || reinterpret_cast<uintptr_t>(data) % 16 == 0));
          for (int i = 0; i < kWidth; ++i) values.lane[i] = data[from.repeats ? 0 : i];
          return values;
        };
        const auto result = gpu::evaluate<kWidth>(x.code, load, slots.data(), 1);
        for (int i = 0; i < kWidth; ++i) to[pack * kWidth + i] = result.lane[i];
      }
    };
    if (plan.width == 1) {
      compute(std::integral_constant<int, 1>());
    } else {
      ++packs;
      REQUIRE(plan.width == 4);
      compute(std::integral_constant<int, 4>());
    }
    const std::vector<double> expected = test::elementwiseInDouble(step, operands);
    REQUIRE(x.packs * plan.width == count);
    INFO("round " << round << ", " << plan.width << " at a time");
    for (int64_t i = 0; i < count; ++i) REQUIRE(double{to[i]} == expected[size(i)]);
  }
  CHECK(packs > 50);
}

TEST_CASE("a GPU's linear chains are found, and each pack of theirs has one thread") {
  Random random;
  using Operation = ElementwiseStep::Operation;
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  // Nothing is read: the plan asks for boundaries alone.
  const auto addressOf = [](int64_t i) { return reinterpret_cast<const void*>((i + 1) << 30); };
  for (int round = 0; round < 60; ++round) {
    const int64_t images = random.pick({1, 2, 64}), area = random.pick({1, 49, 3136}), packs = random.pick({1, 8, 33});
    const int64_t channels = 8 * packs, pitch = channels + random.pick({0, 8, 64});
    ElementwiseStep step;
    step.extents = {images, area, channels};
    step.types = {FloatType::float16, FloatType::float32, FloatType::float16};
    const bool isGate = random.maybe(), isResidual = random.maybe();
    step.strides = {{area * pitch, pitch, 1}, {isGate ? channels : 0, 0, 1}, {0, 0, 1}};
    if (isResidual) step.strides[2] = {area * channels, channels, 1};
    step.operands.resize(3);
    step.outputType = FloatType::float16;
    step.code = {{Operation::multiply, 1, 0}, {Operation::add, 3, 2}, {Operation::clip, 4, 0, -1, 6}};
    const std::array<const void*, 3> operands{addressOf(0), addressOf(1), addressOf(2)};
    const gpu::TypedPlan plan = gpu::planTyped(step, operands, addressOf(3));
    const std::optional<gpu::LinearArguments> linear = gpu::planLinear(step, plan);
    REQUIRE(linear.has_value());
    const gpu::LinearArguments& x = *linear;
    INFO("round " << round << ": " << images << " x " << area << " x " << channels << ", " << x.threads.divisor()
                  << " threads");
    REQUIRE(x.packs == images * area * packs);
    CHECK(x.x.data == operands[0]);
    CHECK(x.factor.data == operands[1]);
    CHECK(x.summand.data == operands[2]);
    CHECK(x.low == -1.0f);
    CHECK(x.high == 6.0f);
    std::vector<int> visits(size(x.packs));
    const auto checkSame = [&](const auto& tensor, int pack, int first) {
      if (!gpu::isSameInSpan(x, tensor)) return;
      REQUIRE(gpu::packOffset(x, tensor, pack, 8) == gpu::packOffset(x, tensor, first, 8));
    };
    CHECK(gpu::isSameInSpan(x, x.factor) == !x.factor.flat);
    CHECK((isResidual ? !gpu::isSameInSpan(x, x.summand) || area == 1
                      : gpu::isSameInSpan(x, x.summand) == !x.summand.flat));
    for (int thread = 0; thread < 256 * x.blocks; ++thread) {
      const int first = thread / x.threads.divisor() * x.span + thread % x.threads.divisor();
      const int end = (thread / x.threads.divisor() + 1) * x.span;
      for (int pack = first; pack < std::min(end, x.packs); pack += x.threads.divisor()) {
        ++visits[size(pack)];
        checkSame(x.factor, pack, first), checkSame(x.summand, pack, first);
      }
    }
    REQUIRE(std::all_of(visits.begin(), visits.end(), [](int count) { return count == 1; }));

    const auto isLinear = [&](std::vector<ElementwiseStep::Instruction> code) {
      ElementwiseStep other = step;
      other.code = std::move(code);
      return gpu::planLinear(other, gpu::planTyped(other, operands, addressOf(3))).has_value();
    };
    CHECK(isLinear({{Operation::relu, 0, 0}}));
    CHECK(isLinear({{Operation::add, 0, 1}, {Operation::clip, 3, 0, -kEndless, 2}}));
    CHECK(!isLinear({{Operation::add, 0, 1}, {Operation::multiply, 3, 2}}));
    CHECK(!isLinear({{Operation::relu, 0, 0}, {Operation::add, 3, 1}}));
    CHECK(!isLinear({{Operation::multiply, 0, 0}}));
    CHECK(!isLinear({{Operation::multiply, 0, 1}, {Operation::sigmoid, 3, 0}}));
    CHECK(!isLinear({{Operation::multiply, 0, 1}, {Operation::add, 3, 3}}));
    step.outputType = FloatType::float32;
    CHECK(!isLinear(step.code));
  }
}

TEST_CASE("a GPU's formulas within their stated error, over all floats") {
  Random random;
  const std::vector<float> points = test::wholeDomain(random.engine());
  const auto check = [&](const test::Function& function, float a, float b) {
    const gpu::CodeInstruction code{
        function.operation, 0, 1, gpu::kNothing, static_cast<float>(function.p), static_cast<float>(function.q)};
    const float actual = gpu::apply<1>(code, {{a}}, {{b}}).lane[0];
    const double exact = test::exactly(function, double{a}, double{b});
    INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q
                      << " of " << a << " and " << b << " is " << actual << ", not " << exact);
    REQUIRE(test::isRight(function, function.gpu, double{a}, actual, exact));
  };
  for (const test::Function& function : test::functions()) {
    for (const float x : points) check(function, x, x);
  }
  for (const test::Function& function : test::binaryFunctions()) {
    for (size_t i = 0; i < points.size(); ++i) check(function, points[i], points[(7 * i + 3) % points.size()]);
  }
}

TEST_CASE("a GPU's sine and cosine of any float") {
  Random random;
  const auto check = [](float x) {
    const auto ulp = [](double y) { return std::ldexp(1.0, std::max(std::ilogb(y), -126) - 23); };
    const double sine = std::sin(double{x}), cosine = std::cos(double{x});
    INFO("of " << x);
    REQUIRE(std::abs(double{gpu::sine(x)} - sine) <= 0.51 * ulp(sine));
    REQUIRE(std::abs(double{gpu::cosine(x)} - cosine) <= 0.51 * ulp(cosine));
  };
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t bits = random.bits();
    float x;
    std::memcpy(&x, &bits, sizeof x);
    if (std::isfinite(x) && x != 0) check(x);
    check(1e-6f + static_cast<float>(bits) * 1e-5f);
  }
  // The float that is closest to a multiple of half a turn, and its neighbours on both ways of reducing it.
  for (const float x : {16367173.0f * 0x1p+72f, 65536.0f, std::nextafter(65536.0f, 1e9f), 3.4028235e38f}) check(x);
  CHECK(std::signbit(gpu::sine(-0.0f)));
  CHECK(gpu::cosine(0.0f) == 1.0f);
  for (const float x : {INFINITY, -INFINITY, NAN}) {
    CHECK(std::isnan(gpu::sine(x)));
    CHECK(std::isnan(gpu::cosine(x)));
  }
}

TEST_CASE("every element of every line has one thread of a GPU's blocks") {
  for (const int64_t outer : {1, 3, 300}) {
    for (const int64_t length : {0, 1, 5, 32, 33, 1000, 40'000}) {
      for (const int64_t inner : {1, 2, 3, 31, 32, 33, 100}) {
        if (outer * length * inner > 1'000'000) continue;
        const gpu::Lines x = gpu::shareLines(outer, length, inner);
        INFO(outer << " x " << length << " x " << inner);
        REQUIRE(x.threads() >= gpu::Lines::kLeastThreads);
        REQUIRE(x.threads() <= gpu::Lines::kMostThreads);
        std::vector<int> owners(size(outer * length * inner)), writers(size(outer * inner));
        for (int block = 0; block < x.blocks; ++block) {
          for (int thread = 0; thread < x.threads(); ++thread) {
            const gpu::Lines::Place own = x.place(block, thread);
            if (!own.exists) continue;
            for (int64_t i = own.worker; i < length; i += x.workers) {
              ++owners[size((own.row * length + i) * inner + own.column)];
            }
            if (own.worker == 0) ++writers[size(own.row * inner + own.column)];
          }
        }
        REQUIRE(std::all_of(owners.begin(), owners.end(), [](int count) { return count == 1; }));
        REQUIRE(std::all_of(writers.begin(), writers.end(), [](int count) { return count == 1; }));
      }
    }
  }
}

TEST_CASE("steps that a GPU cannot index are refused with their kind, and others are not") {
  const auto reasonOf = [](const Step& step) { return gpu::refusal(step).value_or(""); };
  const auto castOf = [](int64_t count) { return test::castStep(ElementType::float32, ElementType::int8, count); };
  CHECK(reasonOf(castOf(1000)).empty());
  CHECK(reasonOf(castOf(int64_t{1} << 31)).find("a map step") != std::string::npos);
  // A broadcast operand takes no room; one that is reached by large strides does.
  ElementwiseStep chain{.extents = {30'000, 30'000}, .strides = {{0, 1}}};
  CHECK(reasonOf(chain).empty());
  chain.strides = {{100'000, 1}};
  CHECK_FALSE(reasonOf(chain).empty());
  CopyStep backwards{.extents = {30'000, 2}, .inputStrides = {-100'000, 1}, .outputStrides = {2, 1}};
  CHECK_FALSE(reasonOf(backwards).empty());
  MatmulStep product{.m = 4, .n = 4, .k = 4};
  product.batch.assign(8, 1);
  product.leftStrides = product.rightStrides = product.biasStrides = std::vector<int64_t>(11, 1);
  CHECK(reasonOf(product).empty());
  product.batch.push_back(1);
  CHECK(reasonOf(product).find("at most 8 axes") != std::string::npos);
  ElementwiseStep deep{.extents = std::vector<int64_t>(6, 2), .strides = {std::vector<int64_t>(6, 1)}};
  CHECK(reasonOf(deep).empty());
  deep.extents.push_back(2), deep.strides[0].push_back(1);
  CHECK(reasonOf(deep).find("at most 6 axes; this one has 7") != std::string::npos);
  const std::vector<int64_t> steps(10, 1);
  CopyStep reversed{.extents = {1, 2, 2, 2, 2, 2, 2, 2, 2, 1}, .inputStrides = steps, .outputStrides = steps};
  CHECK(reasonOf(reversed).empty());
  reversed.extents[0] = 2;
  CHECK(reasonOf(reversed).find("at most 8 axes that cannot be joined; this one has 9") != std::string::npos);
  reversed.inputStrides = reversed.outputStrides = {256, 128, 64, 32, 16, 8, 4, 2, 1, 1};
  CHECK(reasonOf(reversed).empty());
}

TEST_CASE("steps of other types that a GPU cannot index are refused, and others are not") {
  constexpr int64_t kBeyond = int64_t{1} << 31;
  const auto reasonOf = [](const Step& step) { return gpu::refusal(step).value_or(""); };
  const auto isRefused = [&](const Step& step, const char* words) {
    INFO(reasonOf(step));
    return reasonOf(step).find(words) != std::string::npos;
  };
  MapStep map{.extents = std::vector<int64_t>(8, 2), .strides = {std::vector<int64_t>(8, 1)}};
  CHECK(reasonOf(map).empty());
  map.extents.push_back(2), map.strides[0].push_back(1);
  CHECK(isRefused(map, "a map step on a GPU takes at most 8 axes; this one has 9"));
  // A broadcast operand takes no room; one that is reached by large strides does.
  MapStep reaching{.extents = {30'000, 30'000}, .strides = {{0, 1}}};
  CHECK(reasonOf(reaching).empty());
  reaching.strides[0][0] = -100'000;
  CHECK(isRefused(reaching, "a map step on a GPU takes tensors"));
  IndexedStep indexed{.extents = {2, 2}, .valueStrides = {2, 1}, .dataStrides = {0, 1}, .indexStrides = {1, 0}};
  CHECK(reasonOf(indexed).empty());
  for (int64_t* count : {&indexed.dataCount, &indexed.indexCount, &indexed.extents[1], &indexed.valueStrides[0]}) {
    const int64_t before = std::exchange(*count, kBeyond);
    CHECK(isRefused(indexed, "an indexed step on a GPU takes tensors"));
    *count = before;
  }
  indexed.extents = indexed.valueStrides = indexed.dataStrides = indexed.indexStrides = std::vector<int64_t>(9, 1);
  CHECK(isRefused(indexed, "at most 8 axes; this one has 9"));
  CHECK(reasonOf(SortStep{.outer = 3, .length = 1000, .inner = 3, .count = 1000}).empty());
  CHECK(isRefused(SortStep{.length = kBeyond}, "a sort step"));
  CHECK(isRefused(ScanStep{.inner = kBeyond}, "a scan step"));
  CHECK(isRefused(TypedReduceStep{.outer = kBeyond, .reduced = 0}, "a typedReduce step"));
  CHECK(isRefused(RoiAlignStep{.n = kBeyond}, "a roiAlign step"));
  CHECK(isRefused(RoiAlignStep{.regions = kBeyond / 4}, "a roiAlign step"));
  TypedMatmulStep product{.m = 4, .n = 4, .k = 4};
  product.batch.assign(6, 1);
  product.leftStrides = product.rightStrides = std::vector<int64_t>(8, 1);
  CHECK(reasonOf(product).empty());
  product.k = kBeyond;
  CHECK(isRefused(product, "a typedMatmul step on a GPU takes tensors"));
  product.k = 4, product.batch.push_back(1);
  product.leftStrides.push_back(1), product.rightStrides.push_back(1);
  CHECK(isRefused(product, "at most 6 axes before the matrices; this one has 7"));
}
