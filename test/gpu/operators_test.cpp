#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "support/elementwise_functions.h"
#include "support/one_step.h"
#include "support/operators_reference.h"
#include "support/reference.h"

// Steps are given what a test is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace warpconv;
using namespace warpconv::program;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
/** The fp32 rule, against the sum of magnitudes. */
constexpr double kFloatRule = 4e-6;

using test::cpu;
using test::gpu;
using test::OneStep;
using test::Random;
using test::rounds;
using test::size;

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/** NaN where NaN is expected, the same infinity where one is, and otherwise no farther away than `allowed`. */
bool isWithin(double actual, double expected, double allowed) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= allowed;
}

void requireWithin(const std::vector<float>& actual, const test::Expected& expected, double factor) {
  REQUIRE(actual.size() == expected.output.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO("element " << i << " is " << actual[i] << ", not " << expected.output[i]);
    // Results that are not to be exact may be off by the smallest floats.
    REQUIRE(isWithin(double{actual[i]}, expected.output[i], factor * expected.bound[i] + (factor > 0 ? 1e-44 : 0)));
  }
}

/** Equal to what the twin gives, NaN of any kind being equal. */
template <typename T>
void requireSame(const OneStep& one, const Step& step) {
  const std::vector<T> actual = one.run<T>(gpu(), step), expected = one.run<T>(cpu(), step);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i << " is " << +actual[i] << ", not " << +expected[i]);
    REQUIRE((actual[i] == expected[i] || (actual[i] != actual[i] && expected[i] != expected[i])));
  }
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------- matmul

namespace {

struct MatmulCase {
  MatmulStep step;
  std::vector<float> left, right, bias;
};

/** Operands that lie either way round, and are broadcast along some axes. */
MatmulCase makeMatmul(Random& random, std::vector<int64_t> batch, int64_t m, int64_t n, int64_t k) {
  MatmulCase made;
  MatmulStep& x = made.step;
  x.batch = std::move(batch), x.m = m, x.n = n, x.k = k;
  const auto strides = [&](int64_t rows, int64_t columns) {
    const bool turned = random.maybe();
    std::vector<int64_t> result{turned ? 1 : columns, turned ? rows : 1};
    int64_t stride = rows * columns;
    for (size_t axis = x.batch.size(); axis-- > 0;) {
      const bool repeats = random.from(0, 2) == 0;
      result.insert(result.begin(), repeats ? 0 : stride);
      if (!repeats) stride *= x.batch[axis];
    }
    return result;
  };
  x.leftStrides = strides(m, k), x.rightStrides = strides(k, n), x.biasStrides = strides(m, n);
  // Networks have a bias for each column most of the time.
  if (random.maybe()) *(x.biasStrides.end() - 2) = 0, x.biasStrides.back() = 1;
  return made;
}

template <typename Values>
void fillMatmul(MatmulCase& made, bool withBias, const Values& values) {
  const int64_t batches = product(made.step.batch);
  made.left = values(batches * made.step.m * made.step.k);
  made.right = values(batches * made.step.k * made.step.n);
  if (withBias) made.bias = values(batches * made.step.m * made.step.n);
}

OneStep placeMatmul(Random& random, MatmulCase& made) {
  OneStep one(random);
  if (random.maybe()) one.align();
  MatmulStep& x = made.step;
  x.left = one.input(made.left), x.right = one.input(made.right), x.bias = one.optional(made.bias);
  x.output = one.output<float>(product(x.batch) * x.m * x.n);
  return one;
}

std::vector<float> runMatmul(Random& random, MatmulCase& made) {
  const OneStep one = placeMatmul(random, made);
  return one.run<float>(gpu(), made.step);
}

test::Expected expectedOf(const MatmulCase& made) {
  return test::matmulInDouble(made.step, made.left, made.right, made.bias);
}

}  // namespace

TEST_CASE("fuzzed matmul: integers exactly, reals within the fp32 rule, in any layout") {
  Random random;
  for (int round = 0; round < rounds(300); ++round) {
    std::vector<int64_t> batch;
    for (int64_t axes = random.pick({0, 0, 1, 2}); axes > 0; --axes) batch.push_back(random.from(1, 3));
    const int64_t m = random.pick({1, 1, 2, 3, 4, 5, 8, 9, 14, 31, 33, 65, 70});
    const int64_t n = random.pick({1, 2, 7, 16, 17, 31, 32, 33, 63, 65});
    const int64_t k = random.pick({1, 2, 3, 8, 15, 16, 17, 33, 64, 65, 100, 256});
    MatmulCase made = makeMatmul(random, batch, m, n, k);
    INFO("round " << round << ": " << batch.size() << " batch axes, " << m << " x " << k << " x " << n);
    const bool withBias = random.maybe();
    made.step.alpha = random.maybe() ? 1 : 2, made.step.beta = random.maybe() ? 1 : -3;
    fillMatmul(made, withBias, [&](int64_t count) { return random.integers(count); });
    requireWithin(runMatmul(random, made), expectedOf(made), 0);
    fillMatmul(made, withBias, [&](int64_t count) { return random.reals(count); });
    made.step.alpha = 0.3;
    requireWithin(runMatmul(random, made), expectedOf(made), kFloatRule);
  }
}

TEST_CASE("matmul in tiles of every size, and of few rows by long columns: integers exactly, as the twin") {
  Random random;
  // On an H200 the first three choose tiles of 128, 64 and 32, and the others none.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1500, 1601, 35},
                                {700, 1023, 50},
                                {197, 300, 100},
                                {1, 1000, 2048},
                                {7, 1001, 1030},
                                {32, 515, 516}}) {
    for (int layout = 0; layout < 4; ++layout) {
      INFO(m << " x " << k << " x " << n);
      MatmulCase made = makeMatmul(random, {}, m, n, k);
      fillMatmul(made, true, [&](int64_t count) { return random.integers(count); });
      const OneStep one = placeMatmul(random, made);
      requireSame<float>(one, made.step);
    }
  }
}

TEST_CASE("matmul: all-positive data no worse than twice a plain float sum") {
  Random random;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 300, 2048}, {3, 117, 1031}, {32, 40, 700}, {130, 131, 257}}) {
    MatmulCase made = makeMatmul(random, {}, m, n, k);
    fillMatmul(made, false, [&](int64_t count) {
      std::vector<float> values = random.reals(count);
      for (float& value : values) value = std::abs(value);
      return values;
    });
    const test::Expected expected = expectedOf(made);
    const std::vector<float> actual = runMatmul(random, made);
    const MatmulStep& x = made.step;
    double error = 0, plainError = 0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float plain = 0;
        for (int64_t l = 0; l < k; ++l) {
          plain += made.left[size(i * x.leftStrides[0] + l * x.leftStrides[1])] *
                   made.right[size(l * x.rightStrides[0] + j * x.rightStrides[1])];
        }
        const size_t at = size(i * n + j);
        error += std::abs(double{actual[at]} - expected.output[at]);
        plainError += std::abs(double{plain} - expected.output[at]);
      }
    }
    INFO(m << " x " << k << " x " << n);
    CHECK(error <= 2 * plainError);
  }
}

TEST_CASE("matmul: NaN and infinity reach exactly their rows and columns") {
  Random random;
  for (const float special : {kNaN, kInfinity, -kInfinity}) {
    for (const int64_t m : {1, 5, 40}) {
      for (int layout = 0; layout < 4; ++layout) {
        MatmulCase made = makeMatmul(random, {}, m, 37, 71);
        fillMatmul(made, true, [&](int64_t count) { return random.integers(count); });
        made.left[made.left.size() / 2] = special;
        made.right[made.right.size() / 3] = special;
        requireWithin(runMatmul(random, made), expectedOf(made), 0);
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
    for (const int64_t m : {1, 20, 65}) {
      MatmulCase made = makeMatmul(random, {2}, m, 35, 77);
      made.step.activation = activation;
      fillMatmul(made, true, [&](int64_t count) { return random.reals(count); });
      requireWithin(runMatmul(random, made), expectedOf(made), kFloatRule);
    }
  }
}

// ----------------------------------------------------------------------------------------------------- elementwise

namespace {

using test::Function;
using test::Operation;

/** The step that is one function of one operand or two. */
std::vector<float> applyOnGpu(Random& random, const Function& function,
                              const std::vector<std::vector<float>>& operands) {
  OneStep one(random);
  const auto count = static_cast<int64_t>(operands[0].size());
  ElementwiseStep step;
  step.extents = {count};
  for (const auto& operand : operands) {
    step.operands.push_back(one.input(operand));
    step.strides.push_back({1});
  }
  step.code = {{function.operation, 0, static_cast<int64_t>(operands.size()) - 1, function.p, function.q}};
  step.output = one.output<float>(count);
  return one.run<float>(gpu(), step);
}

void checkOnGpu(Random& random, const Function& function, const std::vector<std::vector<float>>& operands) {
  const std::vector<float> actual = applyOnGpu(random, function, operands);
  for (size_t i = 0; i < actual.size(); ++i) {
    const float a = operands[0][i], b = operands.back()[i];
    const double expected = test::exactly(function, double{a}, double{b});
    INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q
                      << " of " << a << " and " << b << " is " << actual[i] << ", not " << expected);
    CHECK(test::isRight(function, function.gpu, double{a}, actual[i], expected));
  }
}

}  // namespace

TEST_CASE("every function of one operand within its stated error, over all floats") {
  Random random;
  const std::vector<float> points = random.wholeDomain();
  for (const Function& function : test::functions()) checkOnGpu(random, function, {points});
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
    checkOnGpu(random, function, {a, b});
  }
}

TEST_CASE("every activation of a product within its function's stated error, over all floats") {
  Random random;
  const std::vector<float> points = random.wholeDomain();
  const auto count = static_cast<int64_t>(points.size());
  for (const test::NamedActivation& named : test::activations()) {
    for (const bool isRow : {false, true}) {
      MatmulCase made;
      MatmulStep& x = made.step;
      x.m = isRow ? 1 : count, x.n = isRow ? count : 1, x.k = 1;
      x.leftStrides = x.rightStrides = {x.n, 1}, x.leftStrides[0] = 1;
      x.activation = makeActivation(named.name, named.parameters).value();
      made.left = isRow ? std::vector<float>{1.0f} : points;
      made.right = isRow ? points : std::vector<float>{1.0f};
      const std::vector<float> actual = runMatmul(random, made);
      for (size_t i = 0; i < points.size(); ++i) {
        const double expected = test::exactly(named.function, double{points[i]});
        INFO(named.name << " of " << points[i] << " is " << actual[i] << ", not " << expected);
        CHECK(test::isRight(named.function, named.function.gpu, double{points[i]}, actual[i], expected));
      }
    }
  }
}

TEST_CASE("fuzzed chains of instructions over broadcast operands are exact on integers") {
  Random random;
  const Operation exact[] = {Operation::add,      Operation::subtract, Operation::minimum,  Operation::maximum,
                             Operation::multiply, Operation::prelu,    Operation::constant, Operation::affine,
                             Operation::negate,   Operation::absolute, Operation::relu,     Operation::clip,
                             Operation::floor,    Operation::sign};
  int checked = 0;
  for (int round = 0; round < rounds(400); ++round) {
    INFO("round " << round);
    OneStep one(random);
    if (random.maybe()) one.align();
    ElementwiseStep step;
    for (int64_t axes = random.from(0, ElementwiseStep::kMostAxes); axes > 0; --axes) {
      const int64_t room = 20'000 / product(step.extents);
      step.extents.push_back(std::min(room, random.pick({1, 2, 3, 4, 7, 16, 49, 300, 1024})));
    }
    std::vector<std::vector<float>> operands;
    for (int64_t i = random.from(1, ElementwiseStep::kMostOperands); i > 0; --i) {
      const int64_t kind = random.from(0, 4);
      std::vector<int64_t> strides(step.extents.size());
      int64_t stride = 1, last = 0;
      for (size_t axis = strides.size(); axis-- > 0;) {
        const bool repeats = kind == 0 || (kind > 2 && random.maybe());
        strides[axis] = repeats ? 0 : stride;
        if (!repeats) stride *= step.extents[axis];
      }
      if (kind == 2) std::reverse(strides.begin(), strides.end());
      for (size_t axis = 0; axis < strides.size(); ++axis) last += (step.extents[axis] - 1) * strides[axis];
      operands.push_back(random.integers(last + 1));
      step.operands.push_back(one.input(operands.back()));
      step.strides.push_back(std::move(strides));
    }
    const int64_t instructions = random.pick({1, 2, 3, 5, 10, ElementwiseStep::kMostInstructions});
    for (int64_t i = 0; i < instructions; ++i) {
      const int64_t values = static_cast<int64_t>(operands.size()) + i;
      // Products of products would soon leave the integers that floats hold.
      const Operation operation = exact[random.from(0, instructions > 5 ? 3 : 13)];
      step.code.push_back({operation, random.from(0, values - 1), random.from(0, values - 1),
                           static_cast<double>(random.from(-3, 0)), static_cast<double>(random.from(0, 3))});
    }
    step.output = one.output<float>(product(step.extents));
    const std::vector<double> expected = test::elementwiseInDouble(step, operands);
    const std::vector<float> actual = one.run<float>(gpu(), step);
    REQUIRE(actual.size() == expected.size());
    const bool isExact =
        std::all_of(expected.begin(), expected.end(), [](double value) { return std::abs(value) < 1 << 20; });
    checked += isExact;
    for (size_t i = 0; i < actual.size() && isExact; ++i) REQUIRE(double{actual[i]} == expected[i]);
  }
  CHECK(checked > rounds(400) / 2);
}

TEST_CASE("chains that keep more values than a block has room for in packs") {
  Random random;
  OneStep one(random);
  one.align();
  const std::vector<float> values = random.integers(4096);
  ElementwiseStep step;
  step.extents = {4096};
  step.operands = {one.input(values)};
  step.strides = {{1}};
  // 14 values, each one more than its predecessor, all of which are read again later, two at a time.
  for (int64_t i = 0; i < 14; ++i) step.code.push_back({Operation::affine, i, 0, 1, 1});
  for (int64_t i = 1; i < 14; i += 2) step.code.push_back({Operation::add, i, i + 1, 0, 0});
  step.output = one.output<float>(4096);
  const std::vector<float> actual = one.run<float>(gpu(), step);
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(actual[i] == (values[i] + 13) + (values[i] + 14));
}

// ------------------------------------------------------------------------------------------------- pool and reduce

namespace {

PoolStep makePool(Random& random) {
  PoolStep step;
  step.mode = random.maybe() ? PoolStep::Mode::maximum : PoolStep::Mode::average;
  step.planes = random.from(1, 4);
  step.r = random.pick({1, 2, 2, 3, 3, 5}), step.s = random.pick({1, 2, 2, 3, 3, 5});
  step.stride = {random.from(1, 3), random.from(1, 3)},
  step.dilation = {random.pick({1, 1, 2}), random.pick({1, 1, 3})};
  step.padding = {random.from(0, step.r - 1), random.from(0, step.s - 1)};
  step.endPadding = {random.from(0, step.r - 1), random.from(0, step.s - 1)};
  step.countPadding = random.maybe();
  step.h = random.from(1, 20) + (step.r - 1) * step.dilation[0];
  step.w = random.pick({1, 2, 7, 15, 16, 33, 64, 70}) + (step.s - 1) * step.dilation[1];
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

}  // namespace

TEST_CASE("fuzzed pool: any window, stride, dilation and padding; NaN and infinity reach exactly their windows") {
  Random random;
  for (int round = 0; round < rounds(600); ++round) {
    PoolStep step = makePool(random);
    INFO("round " << round << ": " << step.h << " x " << step.w << " to " << step.p << " x " << step.q);
    std::vector<float> input = random.reals(step.planes * step.h * step.w);
    if (round % 3 == 0) random.putSpecials(input);
    OneStep one(random);
    step.input = one.input(input), step.output = one.output<float>(step.planes * step.p * step.q);
    requireWithin(one.run<float>(gpu(), step), test::poolInDouble(step, input), kFloatRule);
  }
}

TEST_CASE("fuzzed reduce: every mode over any axis, with equal elements, NaN and infinity, and along many elements") {
  Random random;
  for (int round = 0; round < rounds(100); ++round) {
    for (int mode = 0; mode <= static_cast<int>(ReduceStep::Mode::argMinimum); ++mode) {
      ReduceStep step;
      step.mode = static_cast<ReduceStep::Mode>(mode);
      step.outer = random.pick({1, 2, 5, 19});
      const bool isProduct = step.mode == ReduceStep::Mode::product;
      step.reduced = isProduct ? random.pick({1, 7, 200}) : random.pick({1, 2, 3, 7, 31, 49, 64, 65, 200, 700, 5000});
      step.inner = random.pick({1, 1, 2, 3, 16, 33, 70});
      if (step.reduced == 5000) step.inner = random.pick({1, 3});
      step.last = random.maybe();
      const int64_t count = step.outer * step.reduced * step.inner;
      std::vector<float> input = isProduct ? random.reals(count) : random.integers(count);
      if (round % 3 == 0) random.putSpecials(input);
      INFO("mode " << mode << " of " << step.outer << " x " << step.reduced << " x " << step.inner);
      OneStep one(random);
      step.input = one.input(input);
      const test::Expected expected = test::reduceInDouble(step, input);
      if (step.mode == ReduceStep::Mode::argMaximum || step.mode == ReduceStep::Mode::argMinimum) {
        step.output = one.output<int64_t>(step.outer * step.inner);
        const auto actual = one.run<int64_t>(gpu(), step);
        for (size_t i = 0; i < actual.size(); ++i) REQUIRE(static_cast<double>(actual[i]) == expected.output[i]);
        continue;
      }
      step.output = one.output<float>(step.outer * step.inner);
      // Integers are summed exactly; a mean is rounded once, and so is a product.
      const bool isRounded = isProduct || step.mode == ReduceStep::Mode::mean;
      requireWithin(one.run<float>(gpu(), step), expected, isRounded ? 1e-7 : 0);
    }
  }
}

// --------------------------------------------------------------------------------------------------- normalisations

TEST_CASE("fuzzed softmax and its logarithm over any axis, of large numbers too") {
  Random random;
  for (int round = 0; round < rounds(300); ++round) {
    SoftmaxStep step;
    step.outer = random.from(1, 6);
    step.reduced = random.pick({1, 2, 3, 10, 16, 17, 100, 1000, 3000});
    step.inner = random.pick({1, 1, 2, 5, 16, 33});
    step.logarithm = random.maybe();
    std::vector<float> input = random.reals(step.outer * step.reduced * step.inner);
    const float scale = static_cast<float>(random.pick({1, 10, 80, 1000}));
    const float shift = static_cast<float>(random.pick({0, 0, 500, -500}));
    for (float& value : input) value = value * scale + shift;
    if (round % 5 == 0) random.putSpecials(input);
    OneStep one(random);
    step.input = one.input(input), step.output = one.output<float>(static_cast<int64_t>(input.size()));
    const std::vector<double> expected = test::softmaxInDouble(step, input);
    const std::vector<float> actual = one.run<float>(gpu(), step);
    for (size_t i = 0; i < actual.size(); ++i) {
      INFO("round " << round << ", element " << i << " is " << actual[i] << ", not " << expected[i]);
      // The difference from the maximum is rounded once; its exponential has that error times its magnitude.
      const double distance = std::min(std::abs(double{input[i]}), 2000.0) + double{scale} + 10;
      const double allowed = step.logarithm ? 3e-7 * distance : 3e-7 * (1 + distance) * expected[i] + 3e-44;
      REQUIRE(isWithin(double{actual[i]}, expected[i], allowed));
    }
  }
}

TEST_CASE("fuzzed normalize: instance, group and layer normalisation, far from zero too") {
  Random random;
  for (int round = 0; round < rounds(300); ++round) {
    NormalizeStep step;
    step.groups = random.from(1, 4);
    step.channels = random.pick({1, 2, 3, 8, 100, 768});
    step.inner = random.pick({1, 1, 4, 7, 49, 50});
    step.rows = step.groups * random.from(1, 3);
    step.count = step.channels * step.inner;
    const float shift = random.maybe() ? 0.0f : 300.0f;
    std::vector<float> input = random.reals(step.rows * step.count);
    for (float& value : input) value += shift;
    if (round % 6 == 0) random.putSpecials(input);
    const std::vector<float> scales = random.maybe() ? random.reals(step.groups * step.channels) : std::vector<float>{};
    const std::vector<float> shifts = random.maybe() ? random.reals(step.groups * step.channels) : std::vector<float>{};
    INFO("round " << round << ": " << step.rows << " rows of " << step.channels << " x " << step.inner);
    OneStep one(random);
    step.scale = one.optional(scales), step.shift = one.optional(shifts);
    step.input = one.input(input), step.output = one.output<float>(static_cast<int64_t>(input.size()));
    requireWithin(one.run<float>(gpu(), step), test::normalizeInDouble(step, scales, shifts, input), 1e-6);
  }
}

TEST_CASE("fuzzed local response normalisation over windows that reach beyond the channels") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    LocalResponseStep step;
    step.n = random.from(1, 2), step.channels = random.from(1, 9), step.inner = random.pick({1, 7, 49, 300});
    step.size = random.from(1, 7);
    step.alpha = 0.5, step.beta = random.maybe() ? 0.75 : 0.6, step.k = random.maybe() ? 1 : 2;
    std::vector<float> input = random.reals(step.n * step.channels * step.inner);
    for (float& value : input) value *= 10.0f;
    if (round % 5 == 0) input[0] = kNaN;
    OneStep one(random);
    step.input = one.input(input), step.output = one.output<float>(static_cast<int64_t>(input.size()));
    const std::vector<double> expected = test::localResponseInDouble(step, input);
    const std::vector<float> actual = one.run<float>(gpu(), step);
    for (size_t i = 0; i < actual.size(); ++i) {
      REQUIRE(isWithin(double{actual[i]}, expected[i], 1e-6 * std::abs(expected[i])));
    }
  }
}

// ------------------------------------------------------------------------------------------------------ data moves

TEST_CASE("fuzzed copy: transposes, slices and joins of any element size, as the twin") {
  Random random;
  for (int round = 0; round < rounds(500); ++round) {
    CopyStep step;
    step.bytes = random.pick({1, 2, 4, 4, 4, 8});
    const bool large = round % 10 == 0;
    for (int64_t axes = large ? 3 : random.from(0, 5); axes > 0; --axes) {
      step.extents.push_back(large ? random.from(30, 80) : random.pick({1, 2, 3, 4, 8, 9, 16, 33}));
      if (product(step.extents) > 100'000) step.extents.back() = 1;
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
    OneStep one(random);
    step.input = one.input(random.bytes(inputElements * step.bytes), step.bytes);
    step.input.offset += inputStart * step.bytes;
    step.output = one.output<uint8_t>(outputElements * step.bytes, step.bytes);
    INFO("round " << round << ": " << step.extents.size() << " axes, " << step.bytes << " bytes");
    requireSame<uint8_t>(one, step);
  }
}

TEST_CASE("fuzzed gather: indices from the start and from the end, of any element size, as the twin") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    GatherStep step;
    step.bytes = random.pick({1, 4, 8});
    step.outer = random.from(1, 4), step.axis = random.from(1, 9), step.count = random.pick({1, 2, 30, 700});
    step.inner = random.pick({1, 1, 3, 64, 100});
    std::vector<int64_t> indices(size(step.count));
    for (int64_t& index : indices) index = random.from(-step.axis, step.axis - 1);
    OneStep one(random);
    step.indices = one.input(indices);
    step.input = one.input(random.bytes(step.outer * step.axis * step.inner * step.bytes), step.bytes);
    step.output = one.output<uint8_t>(step.outer * step.count * step.inner * step.bytes, step.bytes);
    requireSame<uint8_t>(one, step);
  }
}

TEST_CASE("fuzzed roiAlign: averages and greatest elements of regions in float32 and float64, as the twin") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    RoiAlignStep step;
    step.greatest = random.maybe(), step.halfPixel = random.maybe();
    step.n = random.from(1, 3), step.channels = random.pick({1, 3, 40});
    step.h = random.from(1, 12), step.w = random.from(1, 40);
    step.p = random.pick({1, 2, 4}), step.q = random.pick({1, 2, 8});
    step.regions = random.pick({1, 2, 30}), step.samples = random.pick({0, 0, 1, 2});
    step.scale = random.maybe() ? 1 : 0.5;
    // Bins of 1, 2 and 4 samples: places, weights and sums are exact, however a device rounds.
    std::vector<float> boxes;
    for (int64_t i = 0; i < step.regions; ++i) {
      const auto x = static_cast<double>(random.from(-20, 8 * step.w)) / 4;
      const auto y = static_cast<double>(random.from(-20, 8 * step.h)) / 4;
      const auto wide = static_cast<double>(step.q * random.pick({1, 2, 4})) / step.scale;
      const auto high = static_cast<double>(step.p * random.pick({1, 2, 4})) / step.scale;
      for (const double corner : {x, y, x + wide, y + high}) boxes.push_back(static_cast<float>(corner));
    }
    std::vector<int64_t> images(size(step.regions));
    for (int64_t& image : images) image = random.from(-step.n, step.n - 1);
    const std::vector<float> input = random.integers(step.n * step.channels * step.h * step.w);
    const int64_t count = step.regions * step.channels * step.p * step.q;
    OneStep one(random);
    step.images = one.input(images);
    if (random.maybe()) {
      step.boxes = one.input(boxes), step.input = one.input(input), step.output = one.output<float>(count);
      requireSame<float>(one, step);
    } else {
      step.type = ElementType::float64;
      step.boxes = one.input(std::vector<double>(boxes.begin(), boxes.end()));
      step.input = one.input(std::vector<double>(input.begin(), input.end()));
      step.output = one.output<double>(count);
      requireSame<double>(one, step);
    }
  }
}

TEST_CASE("gather refuses the first index that is out of range, with the twin's words") {
  Random random;
  for (const int64_t wrong : {int64_t{5}, int64_t{-6}, std::numeric_limits<int64_t>::min()}) {
    std::vector<int64_t> indices(1000, 1);
    indices[700] = wrong, indices[701] = 77;
    GatherStep step{.axis = 5, .count = 1000};
    OneStep one(random);
    step.indices = one.input(indices), step.input = one.input(random.integers(5));
    step.output = one.output<float>(1000);
    std::vector<std::byte> unused;
    const Status onGpu = one.runInto(unused, gpu(), step), onCpu = one.runInto(unused, cpu(), step);
    CHECK(onGpu.code() == StatusCode::invalidArgument);
    CHECK(onGpu.message() == onCpu.message());
  }
}

TEST_CASE("fuzzed interpolate along any axis") {
  Random random;
  for (int round = 0; round < rounds(300); ++round) {
    InterpolateStep step;
    step.outer = random.from(1, 5), step.axis = random.from(1, 20), step.count = random.from(1, 45);
    step.inner = random.pick({1, 1, 2, 15, 33, 100});
    step.taps = random.pick({1, 2, 2, 4});
    for (int64_t i = 0; i < step.count * step.taps; ++i) {
      step.positions.push_back(random.from(0, step.axis - 1));
      step.weights.push_back(static_cast<double>(random.from(-8, 8)) / 8);
    }
    std::vector<float> input = random.reals(step.outer * step.axis * step.inner);
    if (round % 4 == 0) input[size(random.from(0, static_cast<int64_t>(input.size()) - 1))] = kNaN;
    OneStep one(random);
    step.input = one.input(input), step.output = one.output<float>(step.outer * step.count * step.inner);
    requireWithin(one.run<float>(gpu(), step), test::interpolateInDouble(step, input), 1e-6);
  }
}
