#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iomanip>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/microkernels/microkernel.h"
#include "cpu/operators/cpu_operators.h"
#include "support/elementwise_functions.h"
#include "support/guarded_run.h"
#include "support/operators_reference.h"
#include "support/reference.h"
#include "support/rounds.h"

// Steps are given what a test is about; of their buffers the functions know nothing.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace warpconv;
using namespace warpconv::program;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
/** systems.md's fp32 rule, against the sum of magnitudes. */
constexpr double kFloatRule = 4e-6;

size_t size(int64_t count) { return static_cast<size_t>(count); }

const float* orNull(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

/** Seeded anew each time, by what WARPCONV_FUZZ_SEED says where it is set. */
class Random {
 public:
  Random() : seed_(chooseSeed()), engine_(seed_) { MESSAGE("WARPCONV_FUZZ_SEED=" << seed_); }

  int64_t from(int64_t least, int64_t most) { return least + static_cast<int64_t>(engine_() % size(most - least + 1)); }
  int64_t pick(std::initializer_list<int64_t> choices) { return choices.begin()[engine_() % choices.size()]; }
  bool maybe() { return engine_() % 2 == 0; }
  std::vector<float> integers(int64_t count) {
    std::vector<float> values(size(count));
    test::fillWithIntegers(values, engine_);
    return values;
  }
  std::vector<float> reals(int64_t count) {
    std::vector<float> values(size(count));
    test::fillWithReals(values, engine_);
    return values;
  }
  std::vector<float> wholeDomain() { return test::wholeDomain(engine_); }
  std::vector<float> shuffled(std::vector<float> values) {
    std::shuffle(values.begin(), values.end(), engine_);
    return values;
  }

 private:
  static unsigned chooseSeed() {
    const char* given = std::getenv("WARPCONV_FUZZ_SEED");
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  }

  const unsigned seed_;
  std::mt19937 engine_;
};

int64_t product(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

/** Row-major strides, with 0 for axes that `isBroadcast` names. */
template <typename IsBroadcast>
std::vector<int64_t> stridesOf(const std::vector<int64_t>& extents, IsBroadcast isBroadcast) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    const bool broadcast = isBroadcast(axis);
    strides[axis] = broadcast ? 0 : stride;
    if (!broadcast) stride *= extents[axis];
  }
  return strides;
}

/** NaN where NaN is expected, the same infinity where one is, and otherwise no farther away than `allowed`. */
bool isWithin(double actual, double expected, double allowed) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= allowed;
}

/** Those that this machine has. */
std::vector<Isa> isasToTest() {
  std::vector<Isa> isas;
  for (const Microkernel* kernel : microkernels()) {
    if (kernel->isa <= cpuInfo().isaLevel) isas.push_back(kernel->isa);
  }
  return isas;
}

/**
 * What `work(output, context)` makes of so many elements, for every instruction set: to the bit the same on one thread
 * and on several.
 */
template <typename T = float, typename Work>
std::vector<std::vector<T>> run(int64_t count, const Work& work) {
  std::vector<std::vector<T>> outputs;
  for (const Isa isa : isasToTest()) {
    test::GuardedRuns<T> made = test::runGuarded<T>(count, isa, work);
    const auto bytes = size(count) * sizeof(T);
    REQUIRE((count == 0 || std::memcmp(made.onSeveral.data(), made.onOneThread.data(), bytes) == 0));
    outputs.push_back(std::move(made.onOneThread));
  }
  return outputs;
}

/** Fails at the first element of an output of run() for which isRight(i, actual, expected) is not true. */
template <typename T, typename IsRight>
void requireEach(const std::vector<std::vector<T>>& outputs, const std::vector<double>& expected,
                 const IsRight& isRight) {
  for (size_t level = 0; level < outputs.size(); ++level) {
    const std::vector<T>& output = outputs[level];
    REQUIRE(output.size() == expected.size());
    for (size_t i = 0; i < output.size(); ++i) {
      if (isRight(i, output[i], expected[i])) continue;
      const auto digits = std::setprecision(17);
      FAIL("ISA level " << static_cast<int>(isasToTest()[level]) << ", element " << i << " is " << digits << +output[i]
                        << ", not " << expected[i]);
    }
  }
}

/** Beside a multiple of the bound, results that are not to be exact may be off by the smallest floats. */
void requireWithin(const std::vector<std::vector<float>>& outputs, const test::Expected& expected, double factor) {
  requireEach(outputs, expected.output, [&](size_t i, float actual, double exact) {
    return isWithin(double{actual}, exact, factor * expected.bound[i] + (factor > 0 ? 1e-44 : 0));
  });
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------- matmul

namespace {

struct MatmulCase {
  MatmulStep step;
  std::vector<float> left, right, bias;
};

MatmulCase makeMatmul(Random& random, std::vector<int64_t> batch, int64_t m, int64_t n, int64_t k) {
  MatmulCase made;
  MatmulStep& x = made.step;
  x.batch = std::move(batch), x.m = m, x.n = n, x.k = k;
  const auto strides = [&](int64_t rows, int64_t columns, bool mayBroadcastMatrix) {
    std::vector<int64_t> extents = x.batch;
    extents.insert(extents.end(), {rows, columns});
    std::vector<int64_t> result = stridesOf(
        extents, [&](size_t axis) { return (axis < x.batch.size() || mayBroadcastMatrix) && random.from(0, 2) == 0; });
    const bool turned = !mayBroadcastMatrix && random.maybe();
    if (turned) result[x.batch.size()] = 1, result[x.batch.size() + 1] = rows;
    return result;
  };
  x.leftStrides = strides(m, k, false);
  x.rightStrides = strides(k, n, false);
  x.biasStrides = strides(m, n, true);
  return made;
}

void fillMatmul(MatmulCase& made, bool withBias, const std::function<std::vector<float>(int64_t)>& values) {
  const int64_t batches = product(made.step.batch);
  made.left = values(batches * made.step.m * made.step.k);
  made.right = values(batches * made.step.k * made.step.n);
  if (withBias) made.bias = values(batches * made.step.m * made.step.n);
}

std::vector<std::vector<float>> runMatmul(const MatmulCase& made) {
  const MatmulStep& x = made.step;
  return run(product(x.batch) * x.m * x.n, [&](float* output, const RunContext& context) {
    operators::matmul(x, made.left.data(), made.right.data(), orNull(made.bias), output, context);
  });
}

}  // namespace

TEST_CASE("matmul: integers exactly, reals within the fp32 rule, in any layout") {
  Random random;
  for (int round = 0; round < test::played(200); ++round) {
    std::vector<int64_t> batch;
    for (int64_t axes = random.pick({0, 0, 1, 2}); axes > 0; --axes) batch.push_back(random.from(1, 3));
    const int64_t m = random.pick({1, 1, 2, 3, 4, 5, 8, 9, 13, 14, 15, 29, 33});
    const int64_t n = random.pick({1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65});
    const int64_t k = random.pick({1, 2, 3, 8, 15, 16, 17, 33, 64, 100, 255});
    MatmulCase made = makeMatmul(random, batch, m, n, k);
    INFO("round " << round << ": " << batch.size() << " batch axes, " << m << " x " << k << " x " << n);
    const bool withBias = random.maybe();
    made.step.alpha = random.maybe() ? 1 : 2;
    made.step.beta = random.maybe() ? 1 : -3;
    fillMatmul(made, withBias, [&](int64_t count) { return random.integers(count); });
    requireWithin(runMatmul(made), test::matmulInDouble(made.step, made.left, made.right, made.bias), 0);
    fillMatmul(made, withBias, [&](int64_t count) { return random.reals(count); });
    made.step.alpha = 0.3;
    requireWithin(runMatmul(made), test::matmulInDouble(made.step, made.left, made.right, made.bias), kFloatRule);
  }
}

TEST_CASE("matmul large enough to be split: all-positive data no worse than twice a plain float sum") {
  Random random;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 700, 1031}, {3, 517, 1031}, {8, 300, 700}, {130, 131, 257}}) {
    for (int layout = 0; layout < 4; ++layout) {
      MatmulCase made = makeMatmul(random, {}, m, n, k);
      fillMatmul(made, true, [&](int64_t count) {
        std::vector<float> values = random.reals(count);
        for (float& value : values) value = std::abs(value);
        return values;
      });
      const test::Expected expected = test::matmulInDouble(made.step, made.left, made.right, made.bias);
      double worst = 0, worstPlain = 0;
      const std::vector<std::vector<float>> outputs = runMatmul(made);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          float plain = 0;
          for (int64_t l = 0; l < k; ++l) {
            plain += made.left[size(i * made.step.leftStrides[0] + l * made.step.leftStrides[1])] *
                     made.right[size(l * made.step.rightStrides[0] + j * made.step.rightStrides[1])];
          }
          plain += made.bias[size(i * made.step.biasStrides[0] + j * made.step.biasStrides[1])];
          const size_t at = size(i * n + j);
          for (const auto& actual : outputs) {
            worst = std::max(worst, std::abs(double{actual[at]} - expected.output[at]));
          }
          worstPlain = std::max(worstPlain, std::abs(double{plain} - expected.output[at]));
        }
      }
      CHECK(worst <= 2 * worstPlain);
    }
  }
}

TEST_CASE("matmul: NaN and infinity reach exactly their rows and columns") {
  Random random;
  for (const float special : {kNaN, kInfinity, -kInfinity}) {
    for (const int64_t m : {1, 5, 40}) {
      for (int layout = 0; layout < 4; ++layout) {
        MatmulCase made = makeMatmul(random, {}, m, 37, 41);
        fillMatmul(made, true, [&](int64_t count) { return random.integers(count); });
        made.left[made.left.size() / 2] = special;
        made.right[made.right.size() / 3] = special;
        requireWithin(runMatmul(made), test::matmulInDouble(made.step, made.left, made.right, made.bias), 0);
      }
    }
  }
}

TEST_CASE("matmul: every activation") {
  Random random;
  const std::vector<double> bounds{-2, 3}, slope{0.125};
  const Activation activations[] = {makeActivation("relu", {}).value(),      makeActivation("relu6", {}).value(),
                                    makeActivation("clip", bounds).value(),  makeActivation("leakyRelu", slope).value(),
                                    makeActivation("sigmoid", {}).value(),   makeActivation("silu", {}).value(),
                                    makeActivation("hardSwish", {}).value(), makeActivation("gelu", {}).value()};
  for (const Activation& activation : activations) {
    for (const int64_t m : {1, 20}) {
      MatmulCase made = makeMatmul(random, {2}, m, 35, 7);
      made.step.activation = activation;
      fillMatmul(made, true, [&](int64_t count) { return random.reals(count); });
      requireWithin(runMatmul(made), test::matmulInDouble(made.step, made.left, made.right, made.bias), kFloatRule);
    }
  }
}

// ----------------------------------------------------------------------------------------------------- elementwise

namespace {

using test::Function;
using test::Operation;

ElementwiseStep oneInstruction(const Function& function, int64_t count, size_t operands) {
  ElementwiseStep step;
  step.extents = {count};
  step.operands.resize(operands);
  step.strides.assign(operands, {1});
  step.code = {{function.operation, 0, operands == 2 ? 1 : 0, function.p, function.q}};
  return step;
}

std::vector<std::vector<float>> runElementwise(const ElementwiseStep& step,
                                               const std::vector<std::vector<float>>& operands) {
  std::vector<const float*> pointers;
  for (const auto& operand : operands) pointers.push_back(operand.data());
  return run(product(step.extents), [&](float* output, const RunContext& context) {
    operators::elementwise(step, pointers, output, context);
  });
}

void checkFunction(const Function& function, const std::vector<std::vector<float>>& operands) {
  INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q);
  const auto count = static_cast<int64_t>(operands[0].size());
  std::vector<double> expected;
  for (size_t i = 0; i < operands[0].size(); ++i) {
    expected.push_back(test::exactly(function, double{operands[0][i]}, double{operands.back()[i]}));
  }
  const auto outputs = runElementwise(oneInstruction(function, count, operands.size()), operands);
  requireEach(outputs, expected, [&](size_t i, float actual, double exact) {
    const bool isRight = test::isRight(function, function.cpu, double{operands[0][i]}, actual, exact);
    if (!isRight) MESSAGE("of " << std::setprecision(9) << operands[0][i] << " and " << operands.back()[i]);
    return isRight;
  });
}

}  // namespace

TEST_CASE("every function of one operand within its stated error, over all floats") {
  Random random;
  const std::vector<float> points = random.wholeDomain();
  for (const Function& function : test::functions()) checkFunction(function, {points});
}

TEST_CASE("every function of two operands within its stated error, over all floats and every pair of special ones") {
  Random random;
  for (const Function& function : test::binaryFunctions()) {
    std::vector<float> a = random.wholeDomain(), b = random.shuffled(a);
    for (const float x : test::specialValues()) {
      for (const float y : test::specialValues()) a.push_back(x), b.push_back(y);
    }
    const std::vector<float> bases = random.reals(5000), exponents = random.reals(5000);
    for (const float x : bases) a.push_back(5.0f * x);
    for (const float x : exponents) b.push_back(10.0f * x);
    checkFunction(function, {a, b});
  }
}

TEST_CASE("every activation of a product within its function's stated error, over all floats") {
  Random random;
  const std::vector<float> points = random.wholeDomain();
  const auto count = static_cast<int64_t>(points.size());
  std::vector<double> expected(points.size());
  for (const test::NamedActivation& named : test::activations()) {
    INFO(named.name);
    for (size_t i = 0; i < points.size(); ++i) expected[i] = test::exactly(named.function, double{points[i]});
    for (const bool isRow : {false, true}) {
      MatmulCase made;
      MatmulStep& x = made.step;
      x.m = isRow ? 1 : count, x.n = isRow ? count : 1, x.k = 1;
      x.leftStrides = x.rightStrides = {x.n, 1}, x.leftStrides[0] = 1;
      x.activation = makeActivation(named.name, named.parameters).value();
      made.left = isRow ? std::vector<float>{1.0f} : points;
      made.right = isRow ? points : std::vector<float>{1.0f};
      requireEach(runMatmul(made), expected, [&](size_t i, float actual, double exact) {
        return test::isRight(named.function, named.function.cpu, double{points[i]}, actual, exact);
      });
    }
  }
}

TEST_CASE("chains of instructions over broadcast operands are exact on integers") {
  Random random;
  const Operation operations[] = {Operation::add,      Operation::subtract, Operation::minimum,  Operation::maximum,
                                  Operation::multiply, Operation::prelu,    Operation::constant, Operation::affine,
                                  Operation::negate,   Operation::absolute, Operation::relu,     Operation::clip,
                                  Operation::floor,    Operation::sign};
  for (int round = 0; round < test::played(200); ++round) {
    INFO("round " << round);
    ElementwiseStep step;
    const bool deep = round % 10 == 0;
    for (int64_t axes = deep ? random.from(7, 12) : random.from(0, 6); axes > 0; --axes) {
      const int64_t room = 20'000 / product(step.extents);
      step.extents.push_back(
          std::min(room, deep ? random.from(1, 2) : random.pick({1, 2, 3, 5, 7, 16, 49, 300, 1025})));
    }
    const int64_t operandCount = random.from(1, ElementwiseStep::kMostOperands);
    std::vector<std::vector<float>> operands;
    for (int64_t i = 0; i < operandCount; ++i) {
      const int64_t kind = random.from(0, 4);
      step.operands.emplace_back();
      step.strides.push_back(
          stridesOf(step.extents, [&](size_t) { return kind == 0 || (kind > 2 && random.maybe()); }));
      if (kind == 2) std::reverse(step.strides.back().begin(), step.strides.back().end());
      int64_t last = 0;
      for (size_t axis = 0; axis < step.extents.size(); ++axis) {
        last += (step.extents[axis] - 1) * step.strides.back()[axis];
      }
      operands.push_back(random.integers(last + 1));
    }
    const int64_t instructions = random.pick({1, 2, 3, 5, 10, ElementwiseStep::kMostInstructions});
    for (int64_t i = 0; i < instructions; ++i) {
      const int64_t values = operandCount + i;
      // Products of products would soon leave the integers that floats hold.
      const Operation operation = operations[random.from(0, instructions > 5 ? 3 : 13)];
      step.code.push_back({operation, random.from(0, values - 1), random.from(0, values - 1),
                           static_cast<double>(random.from(-3, 0)), static_cast<double>(random.from(0, 3))});
    }
    // Ten sums double at most ten times; products of the longest chains reach 7^32.
    const std::vector<double> expected = test::elementwiseInDouble(step, operands);
    const bool isExact =
        std::all_of(expected.begin(), expected.end(), [](double value) { return std::abs(value) < 1 << 20; });
    const auto outputs = runElementwise(step, operands);
    if (isExact)
      requireEach(outputs, expected, [](size_t, float actual, double exact) { return double{actual} == exact; });
  }
}

TEST_CASE("scales and shifts of channels are exact on integers, whether rows are long or short, also in place") {
  Random random;
  // Of operands x, scale and shift, which are values 0 to 2.
  const std::vector<std::vector<ElementwiseStep::Instruction>> chains = {
      {{Operation::multiply, 0, 1}, {Operation::add, 3, 2}, {Operation::relu, 4}},
      {{Operation::multiply, 1, 0}, {Operation::subtract, 2, 3}, {Operation::subtract, 4, 2}},
      {{Operation::subtract, 1, 0}, {Operation::multiply, 3, 2}, {Operation::add, 4, 3}},
      {{Operation::multiply, 0, 1}, {Operation::add, 3, 2}, {Operation::add, 4, 3}},
      {{Operation::relu, 0}, {Operation::multiply, 3, 1}, {Operation::add, 2, 4}, {Operation::maximum, 5, 0}},
      {{Operation::add, 0, 1}, {Operation::minimum, 3, 2}},
      {{Operation::multiply, 1, 2}, {Operation::add, 3, 0}},
  };
  for (const int64_t row : {7, 63, 64, 300, 2500}) {
    for (const auto& code : chains) {
      INFO("rows of " << row << ", chain " << &code - chains.data());
      ElementwiseStep step;
      step.extents = {2, 5, row};
      step.operands.resize(3);
      step.strides = {{5 * row, row, 1}, {0, 1, 0}, {5, 1, 0}};
      step.code = code;
      std::vector<std::vector<float>> operands = {random.integers(10 * row), random.integers(5), random.integers(10)};
      const std::vector<double> expected = test::elementwiseInDouble(step, operands);
      const auto isExact = [](size_t, float actual, double exact) { return double{actual} == exact; };
      requireEach(runElementwise(step, operands), expected, isExact);
      const float* const pointers[] = {operands[0].data(), operands[1].data(), operands[2].data()};
      operators::elementwise(step, pointers, operands[0].data(), {});
      requireEach(std::vector<std::vector<float>>{operands[0]}, expected, isExact);
    }
  }
}

TEST_CASE("an elementwise step may write over an operand of the output's layout") {
  Random random;
  ElementwiseStep step = oneInstruction({Operation::multiply, 0, 0, {}, {}}, 5000, 2);
  step.code.push_back({Operation::add, 2, 0, 0, 0});
  const std::vector<float> a = random.integers(5000), b = random.integers(5000);
  const std::vector<float> expected = runElementwise(step, {a, b}).back();
  std::vector<float> inPlace = a;
  const float* const operands[] = {inPlace.data(), b.data()};
  operators::elementwise(step, operands, inPlace.data(), {});
  CHECK(inPlace == expected);
}

// ------------------------------------------------------------------------------------------------------------ pool

namespace {

PoolStep makePool(Random& random) {
  PoolStep step;
  step.mode = random.maybe() ? PoolStep::Mode::maximum : PoolStep::Mode::average;
  step.planes = random.from(1, 4);
  step.r = random.pick({1, 2, 2, 3, 3, 5}), step.s = random.pick({1, 2, 2, 3, 3, 5});
  const bool common = random.maybe();
  step.stride = common ? std::array<int64_t, 2>{2, 2} : std::array<int64_t, 2>{random.from(1, 3), random.from(1, 3)};
  step.dilation = common ? std::array<int64_t, 2>{1, 1} : std::array<int64_t, 2>{random.from(1, 2), random.from(1, 3)};
  step.padding = {random.from(0, step.r - 1), random.from(0, step.s - 1)};
  step.endPadding = {random.from(0, step.r - 1), random.from(0, step.s - 1)};
  step.countPadding = random.maybe();
  step.h = random.from(1, 20) + (step.r - 1) * step.dilation[0];
  step.w = random.pick({1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 35, 64, 70}) + (step.s - 1) * step.dilation[1];
  const bool ceil = random.maybe();
  const auto outputs = [&](size_t axis, int64_t extent, int64_t taps) {
    const int64_t room = extent + step.padding[axis] + step.endPadding[axis] - (taps - 1) * step.dilation[axis] - 1;
    int64_t count = room / step.stride[axis] + 1;
    // One more window where it begins inside.
    if (ceil && room % step.stride[axis] != 0 && count * step.stride[axis] < extent + step.padding[axis]) ++count;
    return count;
  };
  step.p = outputs(0, step.h, step.r), step.q = outputs(1, step.w, step.s);
  return step;
}

std::vector<std::vector<float>> runPool(const PoolStep& step, const std::vector<float>& input) {
  return run(step.planes * step.p * step.q,
             [&](float* output, const RunContext& context) { operators::pool(step, input.data(), output, context); });
}

}  // namespace

TEST_CASE("pool: any window, stride, dilation and padding; NaN and infinity reach exactly their windows") {
  Random random;
  for (int round = 0; round < test::played(1500); ++round) {
    const PoolStep step = makePool(random);
    INFO("round " << round << ": " << step.h << " x " << step.w << " to " << step.p << " x " << step.q << " by "
                  << step.r << " x " << step.s << ", stride " << step.stride[0] << " x " << step.stride[1]
                  << (step.mode == PoolStep::Mode::maximum ? ", maximum" : ", average"));
    std::vector<float> input = random.reals(step.planes * step.h * step.w);
    if (round % 3 == 0) {
      for (float special : {kNaN, kInfinity, -kInfinity})
        input[size(random.from(0, static_cast<int64_t>(input.size()) - 1))] = special;
    }
    requireWithin(runPool(step, input), test::poolInDouble(step, input), kFloatRule);
  }
}

TEST_CASE("pool of large maps, as networks have them") {
  Random random;
  for (const auto mode : {PoolStep::Mode::maximum, PoolStep::Mode::average}) {
    PoolStep step{.mode = mode, .planes = 24, .h = 56, .w = 57, .p = 28, .q = 29, .r = 3, .s = 3};
    step.stride = {2, 2}, step.padding = {1, 1}, step.endPadding = {1, 1};
    const std::vector<float> input = random.reals(step.planes * step.h * step.w);
    requireWithin(runPool(step, input), test::poolInDouble(step, input), kFloatRule);
  }
}

// ---------------------------------------------------------------------------------------------------------- reduce

namespace {

void checkReduce(const ReduceStep& step, const std::vector<float>& input, double factor) {
  INFO("mode " << static_cast<int>(step.mode) << " of " << step.outer << " x " << step.reduced << " x " << step.inner);
  const test::Expected expected = test::reduceInDouble(step, input);
  const int64_t count = step.outer * step.inner;
  if (step.mode == ReduceStep::Mode::argMaximum || step.mode == ReduceStep::Mode::argMinimum) {
    const auto actual = run<int64_t>(count, [&](int64_t* output, const RunContext& context) {
      operators::reduce(step, input.data(), output, context);
    });
    requireEach(actual, expected.output,
                [](size_t, int64_t place, double exact) { return static_cast<double>(place) == exact; });
  } else {
    const auto actual = run(count, [&](float* output, const RunContext& context) {
      operators::reduce(step, input.data(), output, context);
    });
    requireWithin(actual, expected, factor);
  }
}

}  // namespace

TEST_CASE("reduce: every mode over any axis, with equal elements, NaN and infinity") {
  Random random;
  for (int round = 0; round < test::played(300); ++round) {
    for (int mode = 0; mode <= static_cast<int>(ReduceStep::Mode::argMinimum); ++mode) {
      ReduceStep step;
      step.mode = static_cast<ReduceStep::Mode>(mode);
      step.outer = random.from(1, 5);
      step.reduced = random.pick({1, 2, 3, 7, 16, 31, 49, 64, 65, 200});
      step.inner = random.pick({1, 1, 2, 3, 15, 16, 17, 40, 70});
      step.last = random.maybe();
      const int64_t count = step.outer * step.reduced * step.inner;
      std::vector<float> input = step.mode == ReduceStep::Mode::product ? random.reals(count) : random.integers(count);
      checkReduce(step, input,
                  step.mode == ReduceStep::Mode::mean || step.mode == ReduceStep::Mode::product ? kFloatRule : 0);
      if (round % 3 > 0) continue;
      for (const float special : {kNaN, kInfinity, -kInfinity}) input[size(random.from(0, count - 1))] = special;
      checkReduce(step, input, kFloatRule);
    }
  }
}

TEST_CASE("reduce: sums of many positive elements keep their accuracy") {
  Random random;
  for (const auto mode : {ReduceStep::Mode::sum, ReduceStep::Mode::mean, ReduceStep::Mode::sumOfSquares}) {
    for (const int64_t inner : {1, 3, 64}) {
      const ReduceStep step{.mode = mode, .outer = 3, .reduced = test::played(20'000), .inner = inner};
      std::vector<float> input = random.reals(step.outer * step.reduced * step.inner);
      for (float& value : input) value = std::abs(value);
      checkReduce(step, input, 1e-6);
    }
  }
}

// --------------------------------------------------------------------------------------------------------- softmax

TEST_CASE("softmax and its logarithm over any axis, of large numbers too") {
  Random random;
  for (int round = 0; round < test::played(300); ++round) {
    SoftmaxStep step;
    step.outer = random.from(1, 6);
    step.reduced = random.pick({1, 2, 3, 10, 16, 17, 100, 1000});
    step.inner = random.pick({1, 1, 2, 5, 16, 33});
    step.logarithm = random.maybe();
    std::vector<float> input = random.reals(step.outer * step.reduced * step.inner);
    const float scale = static_cast<float>(random.pick({1, 10, 80, 1000}));
    const float shift = static_cast<float>(random.pick({0, 0, 500, -500}));
    for (float& value : input) value = value * scale + shift;
    if (round % 5 == 0) input[size(random.from(0, static_cast<int64_t>(input.size()) - 1))] = -kInfinity;
    if (round % 7 == 0)
      input[size(random.from(0, static_cast<int64_t>(input.size()) - 1))] = random.maybe() ? kNaN : kInfinity;
    const std::vector<double> expected = test::softmaxInDouble(step, input);
    const auto outputs = run(static_cast<int64_t>(input.size()), [&](float* output, const RunContext& context) {
      operators::softmax(step, input.data(), output, context);
    });
    INFO("round " << round);
    requireEach(outputs, expected, [&](size_t i, float actual, double exact) {
      // The difference from the maximum is rounded once; its exponential has that error times its magnitude.
      const double distance = std::min(std::abs(double{input[i]}), 2000.0) + double{scale} + 10;
      const double allowed = step.logarithm ? 3e-7 * distance : 3e-7 * (1 + distance) * exact + 1e-44;
      return isWithin(double{actual}, exact, allowed);
    });
  }
}

// ------------------------------------------------------------------------------------------------------- normalize

TEST_CASE("normalize: instance, group and layer normalisation, far from zero too") {
  Random random;
  for (int round = 0; round < test::played(300); ++round) {
    NormalizeStep step;
    step.groups = random.from(1, 4);
    step.channels = random.pick({1, 2, 3, 8, 100});
    step.inner = random.pick({1, 1, 4, 7, 16, 49, 50});
    step.rows = step.groups * random.from(1, 3);
    step.count = step.channels * step.inner;
    const float shift = random.maybe() ? 0.0f : 300.0f;
    std::vector<float> input = random.reals(step.rows * step.count);
    for (float& value : input) value += shift;
    if (round % 6 == 0)
      input[size(random.from(0, static_cast<int64_t>(input.size()) - 1))] = random.maybe() ? kNaN : kInfinity;
    const std::vector<float> scales = random.maybe() ? random.reals(step.groups * step.channels) : std::vector<float>{};
    const std::vector<float> shifts = random.maybe() ? random.reals(step.groups * step.channels) : std::vector<float>{};
    INFO("round " << round << ": " << step.rows << " rows of " << step.channels << " x " << step.inner);
    const auto actual = run(step.rows * step.count, [&](float* output, const RunContext& context) {
      operators::normalize(step, orNull(scales), orNull(shifts), input.data(), output, context);
    });
    requireWithin(actual, test::normalizeInDouble(step, scales, shifts, input), 1e-6);
  }
}

TEST_CASE("local response normalisation over windows that reach beyond the channels") {
  Random random;
  for (int round = 0; round < test::played(200); ++round) {
    LocalResponseStep step;
    step.n = random.from(1, 2), step.channels = random.from(1, 9), step.inner = random.pick({1, 7, 16, 49, 100});
    step.size = random.from(1, 7);
    step.alpha = 0.5, step.beta = random.maybe() ? 0.75 : 0.6, step.k = random.maybe() ? 1 : 2;
    std::vector<float> input = random.reals(step.n * step.channels * step.inner);
    for (float& value : input) value *= 10.0f;
    if (round % 5 == 0) input[0] = kNaN;
    const std::vector<double> expected = test::localResponseInDouble(step, input);
    const auto outputs = run(static_cast<int64_t>(input.size()), [&](float* output, const RunContext& context) {
      operators::localResponse(step, input.data(), output, context);
    });
    requireEach(outputs, expected, [](size_t, float actual, double exact) {
      return isWithin(double{actual}, exact, 1e-6 * std::abs(exact));
    });
  }
}

// ------------------------------------------------------------------------------------------------------ data moves

TEST_CASE("copy: transposes, slices and joins of any element size") {
  Random random;
  for (int round = 0; round < test::played(600); ++round) {
    CopyStep step;
    step.bytes = random.pick({1, 2, 4, 4, 4, 8});
    const bool large = round % 20 == 0, deep = round % 20 == 1;
    for (int64_t axes = large ? 3 : deep ? random.from(9, 14) : random.from(0, 5); axes > 0; --axes) {
      step.extents.push_back(large  ? random.from(30, 80)
                             : deep ? random.from(1, 2)
                                    : random.pick({1, 2, 3, 4, 5, 9, 17, 33}));
      if (product(step.extents) > 300'000) step.extents.back() = 1;
    }
    // Both tensors are dense in an order of axes of their own, with some rows left out, or read backwards.
    const auto strides = [&](int64_t& elements) {
      std::vector<size_t> order;
      for (size_t i = 0; i < step.extents.size(); ++i) {
        order.insert(order.begin() + random.from(0, static_cast<int64_t>(i)), i);
      }
      std::vector<int64_t> result(step.extents.size());
      elements = 1;
      for (size_t i = step.extents.size(); i-- > 0;) {
        result[order[i]] = elements;
        elements *= step.extents[order[i]] + (random.from(0, 4) == 0 ? 2 : 0);
      }
      return result;
    };
    int64_t inputElements = 0, outputElements = 0;
    step.inputStrides = strides(inputElements), step.outputStrides = strides(outputElements);
    int64_t inputStart = 0;
    if (!step.extents.empty() && random.from(0, 3) == 0) {
      inputStart = (step.extents[0] - 1) * step.inputStrides[0];
      step.inputStrides[0] = -step.inputStrides[0];
    }
    std::vector<uint8_t> input(size(inputElements * step.bytes));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.from(0, 255));
    std::vector<uint8_t> expected(size(outputElements * step.bytes), 0xA5);
    test::forEachPosition(step.extents, [&](const std::vector<int64_t>& position) {
      const int64_t from = inputStart + test::offsetAt(position, step.inputStrides);
      const int64_t to = test::offsetAt(position, step.outputStrides);
      for (int64_t i = 0; i < step.bytes; ++i) {
        expected[size(to * step.bytes + i)] = input[size(from * step.bytes + i)];
      }
    });
    INFO("round " << round << ": " << step.extents.size() << " axes, " << step.bytes << " bytes");
    const auto actual = run<uint8_t>(outputElements * step.bytes, [&](uint8_t* output, const RunContext& context) {
      operators::copy(step, input.data() + inputStart * step.bytes, output, context);
    });
    for (const auto& one : actual) REQUIRE(one == expected);
  }
}

TEST_CASE("fill writes so many elements and no more") {
  const auto actual =
      run(1001, [&](float* output, const RunContext&) { operators::fill({.count = 1001, .value = 0.1}, output); });
  for (const auto& one : actual) CHECK(one == std::vector<float>(1001, 0.1f));
}

TEST_CASE("gather: indices from the start and from the end, of any element size") {
  Random random;
  for (int round = 0; round < test::played(200); ++round) {
    GatherStep step;
    step.bytes = random.pick({1, 4, 8});
    step.outer = random.from(1, 4), step.axis = random.from(1, 9), step.count = random.from(1, 30);
    step.inner = random.pick({1, 1, 3, 64, 1000});
    std::vector<int64_t> indices(size(step.count));
    for (int64_t& index : indices) index = random.from(-step.axis, step.axis - 1);
    const int64_t row = step.inner * step.bytes;
    std::vector<uint8_t> input(size(step.outer * step.axis * row)), expected;
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.from(0, 255));
    for (int64_t outer = 0; outer < step.outer; ++outer) {
      for (const int64_t index : indices) {
        const auto from = input.begin() + (outer * step.axis + (index + step.axis) % step.axis) * row;
        expected.insert(expected.end(), from, from + row);
      }
    }
    const auto actual =
        run<uint8_t>(static_cast<int64_t>(expected.size()), [&](uint8_t* output, const RunContext& context) {
          CHECK(operators::gather(step, indices.data(), input.data(), output, context).isOk());
        });
    for (const auto& one : actual) REQUIRE(one == expected);
  }
}

TEST_CASE("gather refuses an index that is out of range, on either side") {
  const std::vector<float> input(5);
  std::vector<float> output(2);
  for (const int64_t wrong : {int64_t{5}, int64_t{-6}, std::numeric_limits<int64_t>::min()}) {
    const std::vector<int64_t> indices{0, wrong};
    const GatherStep step{.axis = 5, .count = 2};
    const Status status = operators::gather(step, indices.data(), input.data(), output.data(), {});
    CHECK(status.code() == StatusCode::invalidArgument);
    CHECK(status.message().find(std::to_string(wrong)) != std::string::npos);
  }
}

TEST_CASE("interpolate along any axis") {
  Random random;
  for (int round = 0; round < test::played(300); ++round) {
    InterpolateStep step;
    step.outer = random.from(1, 5), step.axis = random.from(1, 20), step.count = random.from(1, 45);
    step.inner = random.pick({1, 1, 2, 15, 16, 33, 100});
    step.taps = random.pick({1, 2, 2, 4});
    for (int64_t i = 0; i < step.count * step.taps; ++i) {
      step.positions.push_back(random.from(0, step.axis - 1));
      step.weights.push_back(static_cast<double>(random.from(-8, 8)) / 8);
    }
    std::vector<float> input = random.reals(step.outer * step.axis * step.inner);
    if (round % 4 == 0) input[size(random.from(0, static_cast<int64_t>(input.size()) - 1))] = kNaN;
    const auto actual = run(step.outer * step.count * step.inner, [&](float* output, const RunContext& context) {
      operators::interpolate(step, input.data(), output, context);
    });
    requireWithin(actual, test::interpolateInDouble(step, input), 1e-6);
  }
}

// ---------------------------------------------------------------------------------------------------- cancellation

TEST_CASE("cancelled steps leave their work undone") {
  Cancellation cancellation;
  cancellation.request();
  const RunContext context{.cancellation = &cancellation};
  const std::vector<float> input(4096, 1.0f);
  const std::vector<int64_t> indices(4096, 0);
  std::vector<float> output(4096, 7.0f);
  const auto isUntouched = [&] {
    return std::all_of(output.begin(), output.end(), [](float value) { return value == 7.0f; });
  };
  const float* const operands[] = {input.data()};
  operators::elementwise(oneInstruction({Operation::exp, 0, 0, 0, 0, 0, 0}, 4096, 1), operands, output.data(), context);
  CHECK(isUntouched());
  MatmulStep product{.m = 64, .n = 64, .k = 64};
  product.leftStrides = product.rightStrides = product.biasStrides = {64, 1};
  operators::matmul(product, input.data(), input.data(), nullptr, output.data(), context);
  CHECK(isUntouched());
  operators::pool({.planes = 4, .h = 32, .w = 32, .p = 32, .q = 32}, input.data(), output.data(), context);
  operators::reduce({.outer = 64, .reduced = 64}, input.data(), output.data(), context);
  operators::softmax({.outer = 64, .reduced = 64}, input.data(), output.data(), context);
  operators::normalize({.rows = 64, .count = 64, .channels = 64}, nullptr, nullptr, input.data(), output.data(),
                       context);
  operators::localResponse({.channels = 64, .inner = 64, .size = 5}, input.data(), output.data(), context);
  operators::copy({.extents = {4096}, .inputStrides = {1}, .outputStrides = {1}}, input.data(), output.data(), context);
  operators::interpolate(
      {.outer = 1, .axis = 1, .count = 1, .inner = 4096, .taps = 1, .positions = {0}, .weights = {1}}, input.data(),
      output.data(), context);
  CHECK(operators::gather({.axis = 4096, .count = 4096}, indices.data(), input.data(), output.data(), context).code() ==
        StatusCode::aborted);
  CHECK(isUntouched());
}
