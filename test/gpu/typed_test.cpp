#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/one_step.h"
#include "support/recurrent_reference.h"
#include "support/typed_cases.h"
#include "support/typed_elements.h"
#include "support/typed_functions.h"

using namespace warpconv;
using namespace warpconv::program;
using test::cpu;
using test::Elements;
using test::gpu;
using test::Int128;
using test::OneStep;
using test::Random;
using test::rounds;
using test::size;

namespace {

ElementType anyType(Random& random) {
  return test::kElementTypes[size(random.from(0, std::size(test::kElementTypes) - 1))];
}

Buffer place(OneStep& one, const Elements& elements) { return one.input(elements.bytes, test::bytesOf(elements.type)); }

Buffer placeOutput(OneStep& one, ElementType type, int64_t count) {
  return one.output<std::byte>(count * test::bytesOf(type), test::bytesOf(type));
}

/** Where the first position of a layout is, which need not be the first element. */
Buffer shifted(Buffer buffer, ElementType type, int64_t elements) {
  buffer.offset += elements * test::bytesOf(type);
  return buffer;
}

Elements runOn(Backend& backend, const OneStep& one, const Step& step, ElementType type) {
  Elements made(type, 0);
  made.bytes = one.run<std::byte>(backend, step);
  return made;
}

/** To the bit what the twin gives, NaN of any kind being equal. */
void requireTwin(const OneStep& one, const Step& step, ElementType type) {
  test::requireSame(runOn(gpu(), one, step, type), runOn(cpu(), one, step, type));
}

/** One function of dense operands. */
OneStep placeMap(Random& random, MapStep& step, const std::vector<Elements>& operands) {
  OneStep one(random);
  step.extents = {operands[0].count()};
  for (const Elements& operand : operands) {
    step.types.push_back(operand.type), step.strides.push_back({1});
    step.operands.push_back(place(one, operand));
  }
  step.output = placeOutput(one, step.outputType, operands[0].count());
  return one;
}

template <typename Function>
MapStep stepOf(const Function& function, ElementType compute, ElementType output) {
  MapStep step;
  step.operation = function.operation, step.compute = compute, step.outputType = output;
  step.p = function.p, step.q = function.q;
  return step;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------- map

TEST_CASE("typed casts between every two types, of any bits, as the twin") {
  Random random;
  for (const ElementType from : test::kElementTypes) {
    for (const ElementType to : test::kElementTypes) {
      INFO("from type " << static_cast<int>(from) << " to " << static_cast<int>(to));
      const Elements values = test::widelySpread(from, random);
      OneStep one(random);
      MapStep step = test::castStep(from, to, values.count());
      step.operands = {place(one, values)};
      step.output = placeOutput(one, to, values.count());
      requireTwin(one, step, to);
    }
  }
}

TEST_CASE("typed casts of every half, as the twin") {
  Random random;
  std::vector<uint16_t> all(65'536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const ElementType from : {ElementType::float16, ElementType::bfloat16}) {
    for (const ElementType to : {ElementType::float32, ElementType::float64, ElementType::float16,
                                 ElementType::bfloat16, ElementType::int64}) {
      INFO("from type " << static_cast<int>(from) << " to " << static_cast<int>(to));
      OneStep one(random);
      MapStep step = test::castStep(from, to, static_cast<int64_t>(all.size()));
      step.operands = {one.input(all)};
      step.output = placeOutput(one, to, static_cast<int64_t>(all.size()));
      requireTwin(one, step, to);
    }
  }
}

namespace {

/** Functions that are exact as the twin has them, and others within twice the bound of the twin: CUDA's are its own. */
template <typename C>
void checkFloats(Random& random) {
  const ElementType type = test::typeOf<C>();
  Elements a, b;
  test::pairUp(Elements(test::pointsOf<C>(random)), a, b);
  const std::vector<Elements> all{a, b, a};
  const auto operands = [&](size_t count) {
    return std::vector<Elements>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (const test::MapFunction<C>& function : test::functionsOfFloats<C>()) {
    INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q);
    MapStep step = stepOf(function, type, type);
    const OneStep one = placeMap(random, step, operands(function.operands));
    const auto actual = runOn(gpu(), one, step, type).template as<C>();
    const auto expected = runOn(cpu(), one, step, type).template as<C>();
    for (size_t i = 0; i < actual.size(); ++i) {
      if (test::isResult(function, actual[i], expected[i])) continue;
      const auto at = static_cast<int64_t>(i);
      FAIL("of " << a.read<double>(at) << " and " << b.read<double>(at) << " it is " << test::shown(actual[i])
                 << ", not " << test::shown(expected[i]));
    }
  }
  const std::vector<C> first = a.as<C>(), second = b.as<C>();
  for (const test::RoundedFunction& function : test::roundedFunctions()) {
    INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q);
    MapStep step = stepOf(function, type, type);
    const OneStep one = placeMap(random, step, operands(function.operands));
    const auto actual = runOn(gpu(), one, step, type).template as<C>();
    for (size_t i = 0; i < actual.size(); ++i) {
      if (test::isWithinBound(function, 2, first[i], second[i], actual[i])) continue;
      FAIL("of " << test::shown(first[i]) << " and " << test::shown(second[i]) << " it is " << test::shown(actual[i]));
    }
  }
}

}  // namespace

TEST_CASE("typed map: every function of floats") {
  Random random;
  checkFloats<float>(random);
}

TEST_CASE("typed map: every function of doubles") {
  Random random;
  checkFloats<double>(random);
}

TEST_CASE("typed map: every function of integers of every type, as the twin") {
  Random random;
  for (const ElementType type : test::kElementTypes) {
    if (test::isReal(type)) continue;
    Elements a, b;
    test::pairUp(test::integersOf(type), a, b);
    const std::vector<Elements> operands{a, b, a};
    for (const test::MapFunction<Int128>& function : test::functionsOfIntegers()) {
      INFO("operation " << static_cast<int>(function.operation) << " of type " << static_cast<int>(type));
      MapStep step = stepOf(function, test::computeOf(type), type);
      const auto end = operands.begin() + static_cast<std::ptrdiff_t>(function.operands);
      const OneStep one = placeMap(random, step, {operands.begin(), end});
      requireTwin(one, step, type);
    }
  }
}

TEST_CASE("typed map: powers of whole numbers in doubles are exact, and whole as integers") {
  Random random;
  std::vector<int64_t> bases, expected;
  std::vector<float> exponents;
  for (int64_t base = -30; base <= 30; ++base) {
    int64_t power = 1;
    for (int exponent = 0; exponent <= 10; ++exponent, power *= base) {
      bases.push_back(base), exponents.push_back(static_cast<float>(exponent)), expected.push_back(power);
    }
  }
  MapStep step;
  step.operation = MapStep::Operation::power;
  step.compute = ElementType::float64, step.outputType = ElementType::int64;
  const OneStep one = placeMap(random, step, {Elements(bases), Elements(exponents)});
  test::requireSame(runOn(gpu(), one, step, ElementType::int64), Elements(expected));
}

TEST_CASE("fuzzed typed map: operands of any types, broadcast and transposed, as the twin") {
  Random random;
  using enum MapStep::Operation;
  for (int round = 0; round < rounds(400); ++round) {
    test::MapCase made = test::makeMap(size(random.from(1, 3)), round % 10 == 0 ? 300'000 : 3000, random);
    MapStep& step = made.step;
    const size_t operands = step.operands.size();
    step.operation = operands == 1   ? std::vector{identity, negate, absolute, logicalNot}[size(random.from(0, 3))]
                     : operands == 2 ? std::vector{add, multiply, minimum, lessOrEqual}[size(random.from(0, 3))]
                                     : select;
    step.compute = std::vector{ElementType::float32, ElementType::float64, ElementType::int64,
                               ElementType::uint64}[size(random.from(0, 3))];
    step.outputType = anyType(random);
    INFO("round " << round << ": operation " << static_cast<int>(step.operation) << " of " << step.extents.size()
                  << " axes in type " << static_cast<int>(step.compute));
    OneStep one(random);
    for (size_t i = 0; i < operands; ++i) {
      const test::Layout& layout = made.layouts[i];
      step.types.push_back(anyType(random));
      Elements values = test::anyNumbers(step.types[i], layout.count, random);
      if (round % 3 == 0) test::putSpecials(values, random);
      step.operands[i] = shifted(place(one, values), step.types[i], layout.first);
    }
    step.output = placeOutput(one, step.outputType, test::productOf(step.extents));
    requireTwin(one, step, step.outputType);
  }
}

// --------------------------------------------------------------------------------------------------------- indexed

namespace {

OneStep placeIndexed(Random& random, test::IndexedCase& made, bool withSpecials) {
  IndexedStep& x = made.step;
  OneStep one(random);
  Elements data = test::anyNumbers(x.type, x.dataCount, random);
  Elements values = test::anyNumbers(x.type, made.valueCount, random);
  if (withSpecials) test::putSpecials(data, random), test::putSpecials(values, random);
  x.indices = one.input(made.indices);
  x.input = place(one, made.scatters() ? values : data);
  x.output = placeOutput(one, x.type, made.scatters() ? x.dataCount : made.valueCount);
  one.fillOutput((made.scatters() ? data : values).bytes);
  return one;
}

}  // namespace

TEST_CASE("fuzzed typed indexed: gathers and scatters, where several positions meet too, as the twin") {
  Random random;
  for (int round = 0; round < rounds(600); ++round) {
    test::IndexedCase made = test::makeIndexed(static_cast<IndexedStep::Mode>(round % 6), random);
    made.step.type = anyType(random);
    INFO("round " << round << ": mode " << round % 6 << " of type " << static_cast<int>(made.step.type) << ", "
                  << made.step.extents.size() << " axes, " << made.step.serialAxes << " of them serial");
    const OneStep one = placeIndexed(random, made, round / 6 % 3 == 0);
    requireTwin(one, made.step, made.step.type);
  }
}

TEST_CASE("typed indexed: the first index that is out of range is refused with the twin's words") {
  Random random;
  for (int round = 0; round < rounds(100); ++round) {
    test::IndexedCase made = test::makeIndexed(static_cast<IndexedStep::Mode>(round % 6), random);
    made.step.type = anyType(random);
    const auto count = static_cast<int64_t>(made.indices.size());
    for (int64_t wrongs = random.from(1, 3); wrongs > 0; --wrongs) {
      const int64_t at = random.from(0, count - 1);
      const int64_t axis = made.step.axes[size(at) % made.step.axes.size()];
      made.indices[size(at)] = random.pick(
          {axis, -axis - 1, axis + 1000, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
    }
    const OneStep one = placeIndexed(random, made, false);
    std::vector<std::byte> unused;
    const Status onGpu = one.runInto(unused, gpu(), made.step), onCpu = one.runInto(unused, cpu(), made.step);
    CHECK(onGpu.code() == StatusCode::invalidArgument);
    CHECK(onGpu.message() == onCpu.message());
  }
}

// ----------------------------------------------------------------------------------------------------------- lines

namespace {

Elements numbersFor(ElementType type, int64_t count, bool withSpecials, Random& random) {
  Elements elements = random.maybe() ? test::smallIntegers(type, count, random) : test::anyNumbers(type, count, random);
  if (withSpecials) test::putSpecials(elements, random), test::putSpecials(elements, random);
  return elements;
}

}  // namespace

TEST_CASE("fuzzed typed sort: either order, with equal elements, NaN and infinities, as the twin") {
  Random random;
  for (int round = 0; round < rounds(400); ++round) {
    SortStep step;
    step.type = anyType(random);
    step.outer = random.pick({1, 1, 2, 5, 40}), step.inner = random.pick({1, 1, 2, 3, 33});
    step.length = random.pick({1, 2, 3, 10, 33, 100, 1000});
    step.count = random.maybe() ? step.length : random.from(1, step.length);
    step.greatest = random.maybe();
    INFO("round " << round << ": " << step.count << " of " << step.outer << " x " << step.length << " x " << step.inner
                  << " of type " << static_cast<int>(step.type));
    const Elements input = numbersFor(step.type, step.outer * step.length * step.inner, round % 3 == 0, random);
    OneStep one(random);
    step.input = place(one, input);
    step.output = placeOutput(one, ElementType::int64, step.outer * step.count * step.inner);
    requireTwin(one, step, ElementType::int64);
  }
}

TEST_CASE("fuzzed typed scan: sums and products, without the element itself, from the end, as the twin") {
  Random random;
  for (int round = 0; round < rounds(400); ++round) {
    ScanStep step;
    step.type = anyType(random);
    step.mode = random.maybe() ? ScanStep::Mode::sum : ScanStep::Mode::product;
    step.outer = random.pick({1, 2, 5, 40}), step.inner = random.pick({1, 1, 3, 70});
    step.length = random.pick({1, 2, 3, 10, 33, 500});
    step.exclusive = round % 2 == 0, step.reversed = round % 4 < 2;
    INFO("round " << round << ": " << step.outer << " x " << step.length << " x " << step.inner << " of type "
                  << static_cast<int>(step.type));
    const Elements input = numbersFor(step.type, step.outer * step.length * step.inner, round % 3 == 0, random);
    OneStep one(random);
    step.input = place(one, input), step.output = placeOutput(one, step.type, input.count());
    requireTwin(one, step, step.type);
  }
}

TEST_CASE("fuzzed typed reduce: every mode along any axis, as the twin") {
  Random random;
  using Mode = ReduceStep::Mode;
  for (int round = 0; round < rounds(60); ++round) {
    for (int mode = 0; mode <= static_cast<int>(Mode::argMinimum); ++mode) {
      TypedReduceStep step;
      step.mode = static_cast<Mode>(mode);
      step.type = anyType(random);
      step.outer = random.pick({1, 2, 5, 40}), step.inner = random.pick({1, 1, 3, 70});
      step.reduced = random.pick({1, 2, 3, 10, 33, 500});
      step.last = random.maybe();
      INFO("round " << round << ": mode " << mode << " of type " << static_cast<int>(step.type) << ", " << step.outer
                    << " x " << step.reduced << " x " << step.inner);
      // A GPU rounds a square and its sum at once: integers are exact either way.
      const int64_t count = step.outer * step.reduced * step.inner;
      Elements input = step.mode == Mode::sumOfSquares && test::isReal(step.type)
                           ? test::smallIntegers(step.type, count, random)
                           : numbersFor(step.type, count, false, random);
      if (round % 3 == 0) test::putSpecials(input, random);
      const bool isIndex = step.mode == Mode::argMaximum || step.mode == Mode::argMinimum;
      const ElementType type = isIndex ? ElementType::int64 : step.type;
      OneStep one(random);
      step.input = place(one, input), step.output = placeOutput(one, type, step.outer * step.inner);
      requireTwin(one, step, type);
    }
  }
}

TEST_CASE("fuzzed typed matmul: of any types, with batches and any strides, as the twin") {
  Random random;
  for (int round = 0; round < rounds(400); ++round) {
    const test::MatmulTypes& types = test::kMatmulTypes[size(round) % std::size(test::kMatmulTypes)];
    test::TypedMatmulCase made = test::makeTypedMatmul(types, random);
    TypedMatmulStep& x = made.step;
    INFO("round " << round << ": " << x.batch.size() << " batch axes, " << x.m << " x " << x.k << " x " << x.n
                  << " of types " << static_cast<int>(x.leftType) << " and " << static_cast<int>(x.rightType));
    OneStep one(random);
    x.left = shifted(place(one, made.left), x.leftType, made.leftFirst);
    x.right = shifted(place(one, made.right), x.rightType, made.rightFirst);
    x.output = placeOutput(one, x.outputType, test::productOf(x.batch) * x.m * x.n);
    requireTwin(one, x, x.outputType);
  }
}

// ------------------------------------------------------------------------------------------------------- recurrent

TEST_CASE("recurrent cells of any kind, fuzzed, as their formulas in double precision") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    const test::RecurrentCase given = test::anyRecurrent(random);
    RecurrentStep step = given.step;
    INFO("cell " << static_cast<int>(step.cell) << ", " << step.steps << " steps, batch " << step.batch << ", "
                 << step.hidden);
    OneStep one(random);
    step.gates = one.input(given.gates), step.recurrent = one.input(given.recurrent);
    step.productBias = one.optional(given.productBias), step.peepholes = one.optional(given.peepholes);
    step.initialHidden = one.optional(given.initialHidden), step.initialCell = one.optional(given.initialCell);
    if (!given.lengths.empty()) step.lengths = one.input(given.lengths);
    step.output = one.output<float>(test::recurrentOutputs(step));
    const std::vector<float> actual = one.run<float>(gpu(), step);
    const std::vector<double> expected = test::recurrentInDouble(given);
    const bool hasCells = step.cell == RecurrentStep::Cell::lstm;
    const size_t count = expected.size() - (hasCells ? 0 : size(step.batch * step.hidden));
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(std::abs(static_cast<double>(actual[i]) - expected[i]) <= 2e-5 * (1 + std::abs(expected[i])));
    }
  }
}
