#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "support/guarded_run.h"
#include "support/operators_reference.h"
#include "support/rounds.h"
#include "support/typed_cases.h"
#include "support/typed_elements.h"
#include "support/typed_functions.h"

// Steps are given what a test is about; of their buffers the functions know nothing.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace warpconv;
using namespace warpconv::program;
using test::BFloat16;
using test::Elements;
using test::Float16;
using test::Int128;
using test::requireSame;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

size_t size(int64_t count) { return static_cast<size_t>(count); }

/** Seeded anew each time, by what WARPCONV_FUZZ_SEED says where it is set. */
class Random {
 public:
  Random() : seed_(chooseSeed()), engine_(seed_) { MESSAGE("WARPCONV_FUZZ_SEED=" << seed_); }

  int64_t from(int64_t least, int64_t most) { return least + static_cast<int64_t>(engine_() % size(most - least + 1)); }
  int64_t pick(std::initializer_list<int64_t> choices) { return choices.begin()[engine_() % choices.size()]; }
  bool maybe() { return engine_() % 2 == 0; }
  uint64_t bits() { return engine_(); }
  /** But powers of two, which are scales: rounded up, a sum follows the last bit of what it was made in. */
  ElementType type() {
    const ElementType drawn = test::kElementTypes[size(from(0, std::size(test::kElementTypes) - 1))];
    return drawn == ElementType::float8e8m0 ? type() : drawn;
  }

 private:
  static uint64_t chooseSeed() {
    const char* given = std::getenv("WARPCONV_FUZZ_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  }

  const uint64_t seed_;
  std::mt19937_64 engine_;
};

/** Elements that `work(output, context)` writes, the same on one thread and on several, but for the bits of NaN. */
template <typename Work>
Elements run(ElementType type, int64_t count, const Work& work) {
  Elements made(type, count), again(type, count);
  const auto bytes = static_cast<int64_t>(made.bytes.size());
  test::GuardedRuns<std::byte> runs = test::runGuarded<std::byte>(bytes, cpuInfo().isaLevel, work);
  made.bytes = std::move(runs.onOneThread), again.bytes = std::move(runs.onSeveral);
  requireSame(again, made);
  return made;
}

Elements runMap(const MapStep& step, const std::vector<const void*>& operands) {
  return run(step.outputType, test::productOf(step.extents),
             [&](void* output, const RunContext& context) { operators::map(step, operands, output, context); });
}

Elements cast(const Elements& input, ElementType to) {
  return runMap(test::castStep(input.type, to, input.count()), {input.bytes.data()});
}

template <typename To, typename From>
std::vector<To> castTo(const std::vector<From>& input) {
  return cast(Elements(input), test::typeOf<To>()).template as<To>();
}

/** One function of dense operands. */
Elements apply(MapStep::Operation operation, ElementType compute, const std::vector<Elements>& operands,
               ElementType output, double p = 0, double q = 0) {
  MapStep step;
  step.operation = operation, step.compute = compute, step.outputType = output;
  step.p = p, step.q = q;
  step.extents = {operands[0].count()};
  std::vector<const void*> addresses;
  for (const Elements& operand : operands) {
    step.types.push_back(operand.type), step.strides.push_back({1}), step.operands.emplace_back();
    addresses.push_back(operand.bytes.data());
  }
  return runMap(step, addresses);
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------- halves

namespace {

template <typename Half>
std::vector<Half> allHalves() {
  std::vector<Half> halves(65'536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = {static_cast<uint16_t>(i)};
  return halves;
}

/** Between every two neighbours, and between the greatest one and what would follow: where roundings turn. */
template <typename Half>
std::vector<double> midpoints() {
  std::vector<double> points;
  for (uint16_t bits = 0; std::isfinite(test::valueOfHalf(Half{bits})); ++bits) {
    const double low = test::valueOfHalf(Half{bits}), next = test::valueOfHalf(Half{static_cast<uint16_t>(bits + 1)});
    const double before = test::valueOfHalf(Half{static_cast<uint16_t>(bits == 0 ? 0 : bits - 1)});
    const double middle = std::isfinite(next) ? (low + next) / 2 : low + (low - before) / 2;
    points.insert(points.end(), {middle, -middle});
  }
  return points;
}

/** Fails at the first number that the library rounds to another half than its definition says. */
template <typename Half, typename Number>
void requireNearest(const std::vector<Number>& numbers) {
  std::vector<Half> expected;
  for (const Number number : numbers) expected.push_back(test::elementOf<Half>(test::exactOf(number)));
  const std::vector<Half> actual = castTo<Half>(numbers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (test::isSame(actual[i], expected[i])) continue;
    FAIL(test::shown(numbers[i]) << " becomes " << test::shown(actual[i]) << ", not " << test::shown(expected[i]));
  }
}

template <typename Half>
void checkReading() {
  const std::vector<Half> halves = allHalves<Half>();
  const std::vector<float> floats = castTo<float>(halves);
  for (size_t i = 0; i < halves.size(); ++i) {
    const double expected = test::valueOfHalf(halves[i]);
    INFO("half " << i << " is " << floats[i] << ", not " << expected);
    REQUIRE(test::isSame(double{floats[i]}, expected));
  }
  // All of them survive a float, on which NaN need not keep its bits.
  for (const std::vector<Half>& back : {castTo<Half>(floats), castTo<Half>(castTo<double>(floats))}) {
    for (size_t i = 0; i < halves.size(); ++i) REQUIRE(test::isSame(back[i], halves[i]));
  }
}

template <typename Half>
void checkRounding(Random& random) {
  std::vector<float> numbers;
  for (const double middle : midpoints<Half>()) {
    const auto point = static_cast<float>(middle);
    REQUIRE(double{point} == middle);
    for (const float beside : {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()}) {
      numbers.push_back(std::nextafter(point, beside));
    }
    numbers.push_back(point);
  }
  for (int i = 0; i < test::played(200'000); ++i) {
    numbers.push_back(std::bit_cast<float>(static_cast<uint32_t>(random.bits())));
  }
  for (const double special :
       {0.0, 1e-45, 1e-40, 6e-8, 65504.0, 65519.99, 65520.0, 1e30, 3.4028234663852886e38, kInfinity, kNaN}) {
    numbers.push_back(static_cast<float>(special)), numbers.push_back(static_cast<float>(-special));
  }
  requireNearest<Half>(numbers);
}

/** Doubles so near to where a rounding turns that a float in between would lie on it. */
template <typename Half>
void checkRoundingOnce(Random& random) {
  std::vector<double> numbers;
  for (const double middle : midpoints<Half>()) {
    numbers.insert(numbers.end(), {middle, std::nextafter(middle, -kInfinity), std::nextafter(middle, kInfinity)});
    const double far = std::ldexp(middle, -static_cast<int>(random.from(26, 50)));
    numbers.insert(numbers.end(), {middle - far, middle + far});
  }
  for (int i = 0; i < test::played(100'000); ++i) {
    numbers.push_back(std::bit_cast<double>(random.bits()));
    const auto mantissa = static_cast<double>(random.bits()) - 0x1p63;
    numbers.push_back(std::ldexp(mantissa, static_cast<int>(random.from(-90, -40))));
  }
  numbers.insert(numbers.end(),
                 {0.0, -0.0, 5e-324, -5e-324, 1e-46, -1e-46, 1e300, -1e300, kInfinity, -kInfinity, kNaN});
  requireNearest<Half>(numbers);
  const auto isHarmed = [](double number) {
    if (std::isnan(number) || std::abs(number) > 1e38) return false;
    const auto rounded = static_cast<float>(number);
    return !test::isSame(test::nearestHalf<Half>(double{rounded}), test::nearestHalf<Half>(number));
  };
  CHECK(std::count_if(numbers.begin(), numbers.end(), isHarmed) > 10'000);
}

}  // namespace

TEST_CASE("typed halves: every one is read as what its bits say") {
  checkReading<Float16>();
  checkReading<BFloat16>();
}

TEST_CASE("typed halves: floats round to the nearest, of two to the even one") {
  Random random;
  checkRounding<Float16>(random);
  checkRounding<BFloat16>(random);
}

TEST_CASE("typed halves: doubles are rounded once") {
  Random random;
  checkRoundingOnce<Float16>(random);
  checkRoundingOnce<BFloat16>(random);
}

TEST_CASE("typed halves: integers are rounded once, those too that a double does not hold") {
  Random random;
  std::vector<int64_t> integers;
  std::vector<uint64_t> naturals;
  for (int i = 0; i < test::played(20'000); ++i) {
    // Nine bits of which the last one makes a midpoint, and perhaps a one far behind it.
    const int above = static_cast<int>(random.from(0, 55));
    const auto middle = (static_cast<uint64_t>(random.from(256, 511)) | 1) << above;
    for (const uint64_t beside : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      naturals.push_back(middle + beside);
      integers.push_back(static_cast<int64_t>((middle + beside) / 2));
      integers.push_back(-integers.back());
    }
    integers.push_back(static_cast<int64_t>(random.bits()) >> random.from(0, 63));
    naturals.push_back(random.bits() >> random.from(0, 63));
  }
  requireNearest<Float16>(integers), requireNearest<Float16>(naturals);
  requireNearest<BFloat16>(integers), requireNearest<BFloat16>(naturals);
}

// ----------------------------------------------------------------------------------------------------------- casts

TEST_CASE("typed casts: towards zero, to the nearest bound, and NaN to zero") {
  const auto inf = static_cast<float>(kInfinity), nan = static_cast<float>(kNaN);
  const std::vector<float> floats{0.0f, -0.0f, 1.9f,  -1.9f,  127.5f, 128.0f, -128.9f, -129.0f,
                                  3e9f, -3e9f, 1e20f, -1e20f, inf,    -inf,   nan};
  CHECK(castTo<int8_t>(floats) ==
        std::vector<int8_t>{0, 0, 1, -1, 127, 127, -128, -128, 127, -128, 127, -128, 127, -128, 0});
  CHECK(castTo<uint8_t>(floats) == std::vector<uint8_t>{0, 0, 1, 0, 127, 128, 0, 0, 255, 0, 255, 0, 255, 0, 0});
  constexpr int32_t kLow = std::numeric_limits<int32_t>::min(), kHigh = std::numeric_limits<int32_t>::max();
  CHECK(castTo<int32_t>(floats) ==
        std::vector<int32_t>{0, 0, 1, -1, 127, 128, -128, -129, kHigh, kLow, kHigh, kLow, kHigh, kLow, 0});
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  CHECK(castTo<int64_t>(floats) == std::vector<int64_t>{0, 0, 1, -1, 127, 128, -128, -129, 3'000'000'000,
                                                        -3'000'000'000, kMost, kLeast, kMost, kLeast, 0});
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  CHECK(castTo<uint64_t>(floats) ==
        std::vector<uint64_t>{0, 0, 1, 0, 127, 128, 0, 0, 3'000'000'000, 0, kAll, 0, kAll, 0, 0});
  const Elements truths = cast(Elements(floats), ElementType::boolean);
  for (int64_t i = 0; i < truths.count(); ++i) CHECK(truths.read<int64_t>(i) == (i > 1 ? 1 : 0));
}

TEST_CASE("typed casts between integers, to floats and from bool") {
  const std::vector<int64_t> integers{0, 1, -1, 300, -300, int64_t{1} << 40, (int64_t{1} << 53) + 1};
  CHECK(castTo<int8_t>(integers) == std::vector<int8_t>{0, 1, -1, 44, -44, 0, 1});
  CHECK(castTo<uint64_t>(integers) == std::vector<uint64_t>{0, 1, 0 - uint64_t{1}, 300, 0 - uint64_t{300},
                                                            uint64_t{1} << 40, (uint64_t{1} << 53) + 1});
  CHECK(castTo<double>(integers) == std::vector<double>{0, 1, -1, 300, -300, 1099511627776.0, 9007199254740992.0});
  CHECK(castTo<float>(std::vector<int64_t>{16'777'217, -5}) == std::vector<float>{16'777'216.0f, -5.0f});
  CHECK(castTo<double>(std::vector<uint64_t>{0 - uint64_t{1}, uint64_t{1} << 63}) ==
        std::vector<double>{0x1p64, 0x1p63});
  CHECK(castTo<float>(std::vector<test::Boolean>{{0}, {1}, {7}}) == std::vector<float>{0, 1, 1});
  CHECK(castTo<float>(std::vector<double>{0.1, 1e300}) == std::vector<float>{0.1f, static_cast<float>(kInfinity)});
  CHECK(castTo<int64_t>(std::vector<double>{9007199254740993.0, -2.5, 1e19}) ==
        std::vector<int64_t>{9007199254740992, -2, std::numeric_limits<int64_t>::max()});
}

TEST_CASE("typed casts between every two types, of any bits and around the bounds of all") {
  Random random;
  for (const ElementType from : test::kElementTypes) {
    for (const ElementType to : test::kElementTypes) {
      INFO("from type " << static_cast<int>(from) << " to " << static_cast<int>(to));
      const Elements input = test::widelySpread(from, random);
      Elements expected(to, input.count());
      test::withElement(from, [&](auto like) {
        for (int64_t i = 0; i < input.count(); ++i) {
          std::memcpy(static_cast<void*>(&like), input.at(i), sizeof like);
          // A type keeps the bits of its own elements, but for bytes of bool.
          expected.write(i, test::exactOf(like));
        }
      });
      requireSame(cast(input, to), expected);
    }
  }
}

TEST_CASE("typed casts of as many elements as threads share keep small numbers") {
  constexpr int64_t kCount = 40'003;
  std::vector<float> numbers(size(kCount));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 100);
  for (const ElementType first : test::kElementTypes) {
    if (!test::holdsHundred(first)) continue;
    const Elements once = cast(Elements(numbers), first);
    for (const ElementType second : test::kElementTypes) {
      if (!test::holdsHundred(second)) continue;
      requireSame(cast(cast(once, second), ElementType::float32), Elements(numbers));
    }
  }
}

TEST_CASE("typed casts read every code of the floats of 8 and 4 bits, and round to the nearest of them") {
  for (const ElementType type : test::kElementTypes) {
    test::withElement(type, [&](auto like) {
      using T = decltype(like);
      if constexpr (test::isSmallFloat<T>()) {
        INFO("type " << static_cast<int>(type));
        std::vector<T> codes;
        for (int code = 0; code < (type == ElementType::float4e2m1 ? 16 : 256); ++code) {
          codes.push_back({static_cast<uint8_t>(code)});
        }
        std::vector<double> values;
        for (const T code : codes) values.push_back(test::exactOf(code));
        requireSame(cast(Elements(codes), ElementType::float64), Elements(values));
        // Each number, what lies between it and the next, and on both sides of that.
        std::vector<double> points = values;
        for (size_t i = 0; i + 1 < values.size(); ++i) {
          const double middle = (values[i] + values[i + 1]) / 2;
          points.insert(points.end(), {middle, std::nextafter(middle, -kInfinity), std::nextafter(middle, kInfinity)});
        }
        std::vector<T> expected;
        for (const double point : points) expected.push_back(test::elementOf<T>(point));
        requireSame(cast(Elements(points), type), Elements(expected));
      }
    });
  }
}

// ------------------------------------------------------------------------------------------------------------- map

namespace {

/** A function of floats or doubles over all points, or over all pairs of them. */
template <typename C>
struct Points {
  explicit Points(Random& random) {
    const Elements all(test::pointsOf<C>(random));
    test::pairUp(all, a, b);
    // The third one of a choice is another than the second.
    c = Elements(a.type, a.count());
    for (int64_t i = 0; i < c.count(); ++i) c.write(i, a.read<C>(a.count() - 1 - i));
    values[0] = a.as<C>(), values[1] = b.as<C>(), values[2] = c.as<C>();
  }
  std::vector<Elements> operands(size_t count) const {
    const std::vector<Elements> all{a, b, c};
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  Elements a, b, c;
  std::vector<C> values[3];
};

template <typename C>
void checkFloats(Random& random) {
  const Points<C> points(random);
  const ElementType type = test::typeOf<C>();
  for (const test::MapFunction<C>& function : test::functionsOfFloats<C>()) {
    INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q);
    const auto actual =
        apply(function.operation, type, points.operands(function.operands), type, function.p, function.q)
            .template as<C>();
    for (size_t i = 0; i < actual.size(); ++i) {
      const C a = points.values[0][i], b = points.values[1][i], c = points.values[2][i];
      const C expected = function.formula(a, b, c, static_cast<C>(function.p), static_cast<C>(function.q));
      if (test::isResult(function, actual[i], expected)) continue;
      FAIL("of " << test::shown(a) << ", " << test::shown(b) << " and " << test::shown(c) << " it is "
                 << test::shown(actual[i]) << ", not " << test::shown(expected));
    }
  }
  for (const test::RoundedFunction& function : test::roundedFunctions()) {
    INFO("operation " << static_cast<int>(function.operation) << " with " << function.p << " and " << function.q);
    const auto actual =
        apply(function.operation, type, points.operands(function.operands), type, function.p, function.q)
            .template as<C>();
    for (size_t i = 0; i < actual.size(); ++i) {
      const C a = points.values[0][i], b = points.values[1][i];
      if (test::isWithinBound(function, 1, a, b, actual[i])) continue;
      FAIL("of " << test::shown(a) << " and " << test::shown(b) << " it is " << test::shown(actual[i]));
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

TEST_CASE("typed map: every function of integers of every type, which wrap around") {
  for (const ElementType type : test::kElementTypes) {
    if (test::isReal(type)) continue;
    Elements a, b;
    test::pairUp(test::integersOf(type), a, b);
    const std::vector<Elements> operands{a, b, a};
    for (const test::MapFunction<Int128>& function : test::functionsOfIntegers()) {
      INFO("operation " << static_cast<int>(function.operation) << " of type " << static_cast<int>(type));
      Elements expected(type, a.count());
      test::withElement(type, [&](auto like) {
        for (int64_t i = 0; i < a.count(); ++i) {
          const auto at = [&](const Elements& from) {
            std::memcpy(static_cast<void*>(&like), from.at(i), sizeof like);
            return static_cast<Int128>(test::exactOf(like));
          };
          const Int128 p = static_cast<Int128>(function.p), q = static_cast<Int128>(function.q);
          const auto element = test::elementOf<decltype(like)>(function.formula(at(a), at(b), at(a), p, q));
          std::memcpy(expected.at(i), &element, sizeof element);
        }
      });
      const std::vector<Elements> taken(operands.begin(),
                                        operands.begin() + static_cast<std::ptrdiff_t>(function.operands));
      requireSame(apply(function.operation, test::computeOf(type), taken, type, function.p, function.q), expected);
    }
  }
}

TEST_CASE("typed map: what has no integer answer has the stated one") {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const auto of = [](MapStep::Operation operation, int64_t a, int64_t b) {
    const std::vector<int64_t> left{a}, right{b};
    return apply(operation, ElementType::int64, {Elements(left), Elements(right)}, ElementType::int64)
        .as<int64_t>()
        .front();
  };
  using enum MapStep::Operation;
  CHECK(of(divide, 7, 0) == 0);
  CHECK(of(divide, kLeast, -1) == kLeast);
  CHECK(of(divide, -7, 2) == -3);
  CHECK(of(modulo, -7, 3) == 2);
  CHECK(of(modulo, 7, -3) == -2);
  CHECK(of(modulo, kLeast, -1) == 0);
  CHECK(of(modulo, 7, 0) == 0);
  CHECK(of(remainder, -7, 3) == -1);
  CHECK(of(remainder, 7, -3) == 1);
  CHECK(of(remainder, kLeast, -1) == 0);
  CHECK(of(shiftLeft, 3, 0) == 3);
  CHECK(of(shiftLeft, 1, 63) == kLeast);
  CHECK(of(shiftLeft, 3, 64) == 0);
  CHECK(of(shiftRight, 3, 1000) == 0);
  CHECK(of(shiftRight, -3, 1) == -2);
  CHECK(of(shiftRight, -3, 64) == -1);
  CHECK(of(shiftLeft, 3, -1) == 0);
  CHECK(of(power, 2, -1) == 0);
  CHECK(of(power, -1, -3) == -1);
  CHECK(of(power, 0, 0) == 1);
  CHECK(of(power, 3, 41) == static_cast<int64_t>(test::integerPower(3, 41)));
}

TEST_CASE("typed map: halves are rounded once") {
  Random random;
  const auto check = [&](auto like) {
    using Half = decltype(like);
    const ElementType type = test::typeOf<Half>();
    std::vector<Half> spread = test::widelySpread<Half>(random);
    // Numbers of any bits come first, then those around bounds.
    spread.erase(spread.begin() + 50, spread.begin() + 500);
    Elements a, b;
    test::pairUp(Elements(spread), a, b);
    const auto halfOf = [&](MapStep::Operation operation, size_t operands, double (*formula)(double, double)) {
      INFO("operation " << static_cast<int>(operation) << " of type " << static_cast<int>(type));
      Elements expected(type, a.count());
      for (int64_t i = 0; i < a.count(); ++i) {
        const double x = a.read<double>(i), y = operands == 1 ? 0 : b.read<double>(i);
        const double exact = formula(x, y);
        // Below the floats that have all of their bits a result is rounded twice.
        expected.write(i, std::abs(exact) < 0x1p-126 ? double{static_cast<float>(exact)} : exact);
      }
      requireSame(apply(operation, ElementType::float32,
                        operands == 1 ? std::vector<Elements>{a} : std::vector<Elements>{a, b}, type),
                  expected);
    };
    using enum MapStep::Operation;
    halfOf(add, 2, [](double x, double y) { return x + y; });
    halfOf(subtract, 2, [](double x, double y) { return x - y; });
    halfOf(multiply, 2, [](double x, double y) { return x * y; });
    halfOf(divide, 2, [](double x, double y) { return x / y; });
    halfOf(sqrt, 1, [](double x, double) { return std::sqrt(x); });
  };
  check(Float16{});
  check(BFloat16{});
}

TEST_CASE("typed map: a choice is of any type, and brings every bit along") {
  Random random;
  for (const ElementType type : test::kElementTypes) {
    INFO("type " << static_cast<int>(type));
    const Elements one = test::widelySpread(type, random), other = test::widelySpread(type, random);
    for (const ElementType kind : {ElementType::boolean, ElementType::int32}) {
      const Elements condition = test::smallIntegers(kind, one.count(), random);
      // Another byte than one is true, too.
      Elements truth(ElementType::boolean, one.count()), expected(type, one.count());
      for (int64_t i = 0; i < one.count(); ++i) {
        const bool holds = condition.read<int64_t>(i) != 0;
        *truth.at(i) = holds ? static_cast<std::byte>(random.from(1, 255)) : std::byte{0};
        const Elements& chosen = holds ? one : other;
        test::withElement(type, [&](auto like) {
          std::memcpy(static_cast<void*>(&like), chosen.at(i), sizeof like);
          expected.write(i, test::exactOf(like));
        });
      }
      for (const Elements& given : {condition, truth}) {
        requireSame(apply(MapStep::Operation::select, test::computeOf(type), {given, one, other}, type), expected);
      }
    }
  }
}

TEST_CASE("typed map: of operands of any types, broadcast and transposed, as they are read and written") {
  Random random;
  using enum MapStep::Operation;
  for (int round = 0; round < test::played(400); ++round) {
    const MapStep::Operation operation =
        std::vector{identity, negate, add, multiply, maximum, less, select}[size(random.from(0, 6))];
    const size_t taken = operation == select ? 3 : operation == identity || operation == negate ? 1 : 2;
    // More operands than a function takes are read, and make no difference.
    test::MapCase made =
        test::makeMap(size(random.from(static_cast<int64_t>(taken), 3)), round % 10 == 0 ? 30'000 : 2000, random);
    MapStep& step = made.step;
    step.operation = operation;
    step.compute = std::vector{ElementType::float32, ElementType::float64, ElementType::int64,
                               ElementType::uint64}[size(random.from(0, 3))];
    step.outputType = random.type();
    INFO("round " << round << ": operation " << static_cast<int>(operation) << " of " << step.extents.size()
                  << " axes in type " << static_cast<int>(step.compute));
    std::vector<Elements> operands;
    std::vector<const void*> addresses;
    for (const test::Layout& layout : made.layouts) {
      const ElementType type = random.type();
      step.types.push_back(type);
      operands.push_back(random.maybe() ? test::smallIntegers(type, layout.count, random)
                                        : test::anyNumbers(type, layout.count, random));
    }
    for (size_t i = 0; i < operands.size(); ++i) addresses.push_back(operands[i].at(made.layouts[i].first));
    Elements expected(step.outputType, test::productOf(step.extents));
    test::withComputed(step.compute, [&](auto like) {
      using C = decltype(like);
      using V = std::conditional_t<std::is_integral_v<C>, Int128, C>;
      const auto functions = test::functionsOfAll<V>();
      const auto function =
          std::find_if(functions.begin(), functions.end(), [&](const auto& one) { return one.operation == operation; });
      int64_t place = 0;
      test::forEachPosition(step.extents, [&](const std::vector<int64_t>& position) {
        V values[3]{};
        for (size_t i = 0; i < taken; ++i) {
          const int64_t at = made.layouts[i].first + test::offsetAt(position, step.strides[i]);
          values[i] = static_cast<V>(operands[i].read<C>(at));
        }
        const V result = function->formula(values[0], values[1], values[2], V{}, V{});
        expected.write(place++, static_cast<C>(result));
      });
    });
    const Elements actual = runMap(step, addresses);
    for (int64_t i = 0; i < expected.count(); ++i) {
      // Of a zero and its opposite either is the greater one.
      const bool isZero = operation == maximum && test::isReal(step.outputType) && expected.read<double>(i) == 0 &&
                          actual.read<double>(i) == 0;
      if (isZero) std::memcpy(expected.at(i), actual.at(i), size(test::bytesOf(actual.type)));
    }
    requireSame(actual, expected);
  }
}

// --------------------------------------------------------------------------------------------------------- indexed

namespace {

using Mode = IndexedStep::Mode;

/** What a scatter makes of an element and of a value that meets it. */
template <typename T>
T scattered(Mode mode, T old, T value) {
  const auto a = test::exactOf(old), b = test::exactOf(value);
  switch (mode) {
    case Mode::add: return test::elementOf<T>(a + b);
    case Mode::multiply: return test::elementOf<T>(test::timesOf(a, b));
    case Mode::minimum: return test::elementOf<T>(a != a || b != b ? a + b : b < a ? b : a);
    case Mode::maximum: return test::elementOf<T>(a != a || b != b ? a + b : b > a ? b : a);
    default: return value;
  }
}

/** By the definition: all positions in their order. */
void indexByDefinition(const test::IndexedCase& made, const Elements& input, Elements& output) {
  const IndexedStep& x = made.step;
  test::withElement(x.type, [&](auto like) {
    using T = decltype(like);
    test::forEachPosition(x.extents, [&](const std::vector<int64_t>& position) {
      const int64_t row = test::offsetAt(position, x.indexStrides), value = test::offsetAt(position, x.valueStrides);
      int64_t place = test::offsetAt(position, x.dataStrides);
      for (size_t c = 0; c < x.axes.size(); ++c) {
        const int64_t index = made.indices[size(row) + c];
        place += (index + x.axes[c]) % x.axes[c] * x.axisStrides[c];
      }
      if (!made.scatters()) {
        std::memcpy(output.at(value), input.at(place), sizeof(T));
      } else if (x.mode == Mode::assign) {
        std::memcpy(output.at(place), input.at(value), sizeof(T));
      } else {
        T old, brought;
        std::memcpy(static_cast<void*>(&old), output.at(place), sizeof(T));
        std::memcpy(static_cast<void*>(&brought), input.at(value), sizeof(T));
        const T result = scattered(x.mode, old, brought);
        std::memcpy(output.at(place), &result, sizeof(T));
      }
    });
  });
}

/** Onto what the output holds before. */
Elements runIndexed(const test::IndexedCase& made, const Elements& input, const Elements& before, Status& status) {
  return run(before.type, before.count(), [&](void* output, const RunContext& context) {
    std::memcpy(output, before.bytes.data(), before.bytes.size());
    status = operators::indexed(made.step, made.indices.data(), input.bytes.data(), output, context);
  });
}

}  // namespace

TEST_CASE("typed indexed: gathers and scatters of every type, where several positions meet too") {
  Random random;
  for (int round = 0; round < test::played(600); ++round) {
    const auto mode = static_cast<Mode>(round % 6);
    test::IndexedCase made = test::makeIndexed(mode, random);
    made.step.type = random.type();
    INFO("round " << round << ": mode " << static_cast<int>(mode) << " of type " << static_cast<int>(made.step.type)
                  << ", " << made.step.extents.size() << " axes, " << made.step.serialAxes << " of them serial");
    Elements data = test::anyNumbers(made.step.type, made.step.dataCount, random);
    Elements values = test::anyNumbers(made.step.type, made.valueCount, random);
    if (round / 6 % 3 == 0) test::putSpecials(data, random), test::putSpecials(values, random);
    const Elements& input = made.scatters() ? values : data;
    const Elements& before = made.scatters() ? data : values;
    Elements expected = before;
    indexByDefinition(made, input, expected);
    Status status;
    const Elements actual = runIndexed(made, input, before, status);
    REQUIRE(status.isOk());
    requireSame(actual, expected);
  }
}

TEST_CASE("typed indexed: one place takes every value in their order") {
  test::IndexedCase made;
  IndexedStep& x = made.step;
  x.extents = {3, 4}, x.valueStrides = {4, 1}, x.dataStrides = {1, 0}, x.indexStrides = {0, 1};
  x.serialAxes = 1, x.axes = {2}, x.axisStrides = {3}, x.dataCount = 6, x.indexCount = 4;
  x.type = ElementType::int32;
  made.indices = {1, -1, 0, 1};
  const std::vector<int32_t> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, data{10, 20, 30, 40, 50, 60};
  Status status;
  const auto of = [&](Mode mode) {
    x.mode = mode;
    return runIndexed(made, Elements(values), Elements(data), status).as<int32_t>();
  };
  CHECK(of(Mode::assign) == std::vector<int32_t>{3, 7, 11, 4, 8, 12});
  CHECK(of(Mode::add) == std::vector<int32_t>{13, 27, 41, 47, 69, 91});
  CHECK(of(Mode::minimum) == std::vector<int32_t>{3, 7, 11, 1, 5, 9});
}

TEST_CASE("typed indexed: an index that is out of range, on either side, is named with its place and its axis") {
  Random random;
  for (int round = 0; round < test::played(300); ++round) {
    const auto mode = static_cast<Mode>(round % 6);
    test::IndexedCase made = test::makeIndexed(mode, random);
    made.step.type = random.type();
    const auto count = static_cast<int64_t>(made.indices.size());
    const auto components = static_cast<int64_t>(made.step.axes.size());
    int64_t first = count;
    for (int64_t wrongs = random.from(1, 3); wrongs > 0; --wrongs) {
      const int64_t place = random.from(0, count - 1), axis = made.step.axes[size(place % components)];
      made.indices[size(place)] = random.pick(
          {axis, -axis - 1, axis + 1000, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
      first = std::min(first, place);
    }
    const Elements data = test::anyNumbers(made.step.type, made.step.dataCount, random);
    const Elements values = test::anyNumbers(made.step.type, made.valueCount, random);
    std::vector<std::string> messages;
    run(made.step.type, (made.scatters() ? data : values).count(), [&](void* output, const RunContext& context) {
      const Elements& before = made.scatters() ? data : values;
      std::memcpy(output, before.bytes.data(), before.bytes.size());
      const Status status = operators::indexed(made.step, made.indices.data(),
                                               (made.scatters() ? values : data).bytes.data(), output, context);
      CHECK(status.code() == StatusCode::invalidArgument);
      messages.emplace_back(status.message());
    });
    const std::string axis = std::to_string(made.step.axes[size(first % components)]);
    for (const std::string& message : messages) {
      INFO(message);
      CHECK(message.find("element " + std::to_string(first) + " ") == 0);
      CHECK(message.find(" is " + std::to_string(made.indices[size(first)]) + ";") != std::string::npos);
      CHECK(message.find(" has " + axis + " elements") != std::string::npos);
    }
  }
}

// ----------------------------------------------------------------------------------------------------------- lines

namespace {

int64_t placeIn(int64_t outer, int64_t i, int64_t column, int64_t length, int64_t inner) {
  return (outer * length + i) * inner + column;
}

/** The elements of one line of [outer, length, inner]. */
Elements lineOf(const Elements& elements, int64_t line, int64_t length, int64_t inner) {
  Elements one(elements.type, length);
  for (int64_t i = 0; i < length; ++i) {
    std::memcpy(one.at(i), elements.at(placeIn(line / inner, i, line % inner, length, inner)),
                size(test::bytesOf(elements.type)));
  }
  return one;
}

/** Whether one line's element i is greater than element j; NaN is greater than any number. */
bool isGreater(const Elements& line, int64_t i, int64_t j) {
  if (!test::isReal(line.type)) {
    if (line.type == ElementType::uint64) return line.read<uint64_t>(i) > line.read<uint64_t>(j);
    return line.read<int64_t>(i) > line.read<int64_t>(j);
  }
  const double a = line.read<double>(i), b = line.read<double>(j);
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

/** Of float types numbers of a few values or of many, with NaN and infinities in some rounds. */
Elements numbersFor(ElementType type, int64_t count, bool withSpecials, Random& random) {
  Elements elements = random.maybe() ? test::smallIntegers(type, count, random) : test::anyNumbers(type, count, random);
  if (withSpecials) test::putSpecials(elements, random), test::putSpecials(elements, random);
  return elements;
}

}  // namespace

TEST_CASE("typed sort: either order of every type, with equal elements, NaN and infinities, of all or the first ones") {
  Random random;
  for (int round = 0; round < test::played(400); ++round) {
    SortStep step;
    step.type = random.type();
    step.outer = random.pick({1, 1, 2, 5, 40}), step.inner = random.pick({1, 1, 2, 3, 17});
    step.length = random.pick({1, 2, 3, 10, 33, 100, 300});
    step.count = random.maybe() ? step.length : random.from(1, step.length);
    step.greatest = random.maybe();
    INFO("round " << round << ": " << step.count << " of " << step.outer << " x " << step.length << " x " << step.inner
                  << " of type " << static_cast<int>(step.type));
    const Elements input = numbersFor(step.type, step.outer * step.length * step.inner, round % 3 == 0, random);
    std::vector<int64_t> expected(size(step.outer * step.count * step.inner));
    for (int64_t line = 0; line < step.outer * step.inner; ++line) {
      const Elements elements = lineOf(input, line, step.length, step.inner);
      std::vector<int64_t> places(size(step.length));
      std::iota(places.begin(), places.end(), 0);
      std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
        return step.greatest ? isGreater(elements, a, b) : isGreater(elements, b, a);
      });
      for (int64_t i = 0; i < step.count; ++i) {
        expected[size(placeIn(line / step.inner, i, line % step.inner, step.count, step.inner))] = places[size(i)];
      }
    }
    const Elements actual =
        run(ElementType::int64, static_cast<int64_t>(expected.size()), [&](void* output, const RunContext& context) {
          operators::sort(step, input.bytes.data(), static_cast<int64_t*>(output), context);
        });
    requireSame(actual, Elements(expected));
  }
}

TEST_CASE("typed scan: sums and products, without the element itself, from the end; integers wrap around") {
  Random random;
  for (int round = 0; round < test::played(600); ++round) {
    ScanStep step;
    step.type = random.type();
    step.mode = random.maybe() ? ScanStep::Mode::sum : ScanStep::Mode::product;
    step.outer = random.pick({1, 2, 5, 9}), step.inner = random.pick({1, 1, 3, 17});
    step.length = random.pick({1, 2, 3, 10, 33, 500});
    step.exclusive = round % 2 == 0, step.reversed = round % 4 < 2;
    INFO("round " << round << ": " << step.outer << " x " << step.length << " x " << step.inner << " of type "
                  << static_cast<int>(step.type));
    const bool isSum = step.mode == ScanStep::Mode::sum;
    const int64_t count = step.outer * step.length * step.inner;
    Elements input = test::anyNumbers(step.type, count, random);
    if (round % 3 == 0) test::putSpecials(input, random);
    Elements expected(step.type, count);
    test::withComputed(step.type, [&](auto like) {
      using C = decltype(like);
      // Unsigned integers wrap around by themselves. Floats are added one after the other, as C++ has it.
      using Total = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;
      for (int64_t line = 0; line < step.outer * step.inner; ++line) {
        Total total = isSum ? 0 : 1;
        for (int64_t i = 0; i < step.length; ++i) {
          const int64_t along = step.reversed ? step.length - 1 - i : i;
          const int64_t at = placeIn(line / step.inner, along, line % step.inner, step.length, step.inner);
          const Total before = total;
          const auto element = static_cast<Total>(input.read<C>(at));
          total = isSum ? total + element : total * element;
          expected.write(at, static_cast<C>(step.exclusive ? before : total));
        }
      }
    });
    requireSame(run(step.type, count,
                    [&](void* output, const RunContext& context) {
                      operators::scan(step, input.bytes.data(), output, context);
                    }),
                expected);
  }
}

namespace {

/** The first place, or the last, of what no other element exceeds; NaN exceeds all, whichever way. */
int64_t placeOfExtreme(const Elements& line, bool isGreatest, bool isLast) {
  const auto isNaN = [&](int64_t i) { return test::isReal(line.type) && std::isnan(line.read<double>(i)); };
  const auto exceeds = [&](int64_t i, int64_t j) {
    if (isNaN(i) || isNaN(j)) return isNaN(i) && !isNaN(j);
    return isGreatest ? isGreater(line, i, j) : isGreater(line, j, i);
  };
  std::vector<int64_t> extremes;
  for (int64_t i = 0; i < line.count(); ++i) {
    bool isExceeded = false;
    for (int64_t j = 0; j < line.count() && !isExceeded; ++j) isExceeded = exceeds(j, i);
    if (!isExceeded) extremes.push_back(i);
  }
  return isLast ? extremes.back() : extremes.front();
}

/** One element of a reduction that is no place. */
template <typename C>
C reduceByDefinition(ReduceStep::Mode mode, const Elements& line) {
  using Reduction = ReduceStep::Mode;
  using Total = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;
  const int64_t count = line.count();
  if (mode == Reduction::maximum || mode == Reduction::minimum) {
    return line.read<C>(placeOfExtreme(line, mode == Reduction::maximum, false));
  }
  Total total = mode == Reduction::product ? 1 : 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<Total>(line.read<C>(i));
    total = mode == Reduction::product        ? total * element
            : mode == Reduction::sumOfSquares ? total + element * element
                                              : total + element;
  }
  if (mode != Reduction::mean) return static_cast<C>(total);
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<Int128>(static_cast<C>(total)) / count);
  } else {
    return total / static_cast<C>(count);
  }
}

}  // namespace

TEST_CASE("typed reduce: every mode of every type, along any axis") {
  Random random;
  using Reduction = ReduceStep::Mode;
  for (int round = 0; round < test::played(100); ++round) {
    for (int mode = 0; mode <= static_cast<int>(Reduction::argMinimum); ++mode) {
      TypedReduceStep step;
      step.mode = static_cast<Reduction>(mode);
      step.type = random.type();
      step.outer = random.pick({1, 2, 5, 40}), step.inner = random.pick({1, 1, 3, 17});
      step.reduced = random.pick({1, 2, 3, 10, 33, 100});
      step.last = random.maybe();
      INFO("round " << round << ": mode " << mode << " of type " << static_cast<int>(step.type) << ", " << step.outer
                    << " x " << step.reduced << " x " << step.inner);
      const bool isIndex = step.mode == Reduction::argMaximum || step.mode == Reduction::argMinimum;
      // A compiler may round squares and their sum at once, or one after the other: integers are exact either way.
      const int64_t count = step.outer * step.reduced * step.inner, lines = step.outer * step.inner;
      Elements input = step.mode == Reduction::sumOfSquares && test::isReal(step.type)
                           ? test::smallIntegers(step.type, count, random)
                           : numbersFor(step.type, count, false, random);
      if (round % 3 == 0) test::putSpecials(input, random);
      const ElementType type = isIndex ? ElementType::int64 : step.type;
      Elements expected(type, lines);
      for (int64_t line = 0; line < lines; ++line) {
        const Elements elements = lineOf(input, line, step.reduced, step.inner);
        if (isIndex) {
          expected.write(line, placeOfExtreme(elements, step.mode == Reduction::argMaximum, step.last));
        } else {
          test::withComputed(step.type, [&](auto like) {
            expected.write(line, reduceByDefinition<decltype(like)>(step.mode, elements));
          });
        }
      }
      const Elements actual = run(type, lines, [&](void* output, const RunContext& context) {
        operators::typedReduce(step, input.bytes.data(), output, context);
      });
      // Of a zero and its opposite either is the extreme.
      for (int64_t line = 0; line < lines; ++line) {
        const bool isZero = test::isReal(type) && expected.read<double>(line) == 0 && actual.read<double>(line) == 0;
        if (isZero) std::memcpy(expected.at(line), actual.at(line), size(test::bytesOf(type)));
      }
      requireSame(actual, expected);
    }
  }
}

TEST_CASE("typed reduce: of no elements sums are 0, products 1 and means of floats NaN") {
  const auto of = [](ReduceStep::Mode mode, ElementType type) {
    const TypedReduceStep step{.mode = mode, .type = type, .outer = 2, .reduced = 0, .inner = 1};
    const Elements made = run(type, 2, [&](void* output, const RunContext& context) {
      operators::typedReduce(step, nullptr, output, context);
    });
    return made.read<double>(1);
  };
  using Reduction = ReduceStep::Mode;
  for (const ElementType type : {ElementType::int32, ElementType::float64, ElementType::float16}) {
    CHECK(of(Reduction::sum, type) == 0);
    CHECK(of(Reduction::sumOfSquares, type) == 0);
    CHECK(of(Reduction::product, type) == 1);
  }
  CHECK(of(Reduction::mean, ElementType::int64) == 0);
  CHECK(std::isnan(of(Reduction::mean, ElementType::float64)));
}

TEST_CASE("typed reduce: the mean of narrow integers is that of sums which they do not hold, cut towards zero") {
  const std::vector<int8_t> input{127, 127, 126, -128, -128, -127};
  const TypedReduceStep step{.mode = ReduceStep::Mode::mean, .type = ElementType::int8, .outer = 2, .reduced = 3};
  const Elements actual = run(ElementType::int8, 2, [&](void* output, const RunContext& context) {
    operators::typedReduce(step, input.data(), output, context);
  });
  CHECK(actual.as<int8_t>() == std::vector<int8_t>{126, -127});
}

// ---------------------------------------------------------------------------------------------------------- matmul

TEST_CASE("typed matmul: of any types, with batches and any strides; integers wrap around") {
  Random random;
  for (int round = 0; round < test::played(400); ++round) {
    const test::MatmulTypes& types = test::kMatmulTypes[size(round) % std::size(test::kMatmulTypes)];
    const test::TypedMatmulCase made = test::makeTypedMatmul(types, random);
    const TypedMatmulStep& x = made.step;
    INFO("round " << round << ": " << x.batch.size() << " batch axes, " << x.m << " x " << x.k << " x " << x.n
                  << " of types " << static_cast<int>(x.leftType) << " and " << static_cast<int>(x.rightType));
    std::vector<int64_t> extents = x.batch;
    extents.insert(extents.end(), {x.m, x.n});
    // For each position of the output the row and the column that are multiplied.
    std::vector<int64_t> leftStrides = x.leftStrides, rightStrides = x.rightStrides;
    const int64_t leftStep = std::exchange(leftStrides.back(), 0);
    const int64_t rightStep = std::exchange(rightStrides[x.batch.size()], 0);
    Elements expected(x.outputType, test::productOf(extents));
    test::withComputed(x.compute, [&](auto like) {
      using C = decltype(like);
      using Total = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;
      int64_t place = 0;
      test::forEachPosition(extents, [&](const std::vector<int64_t>& position) {
        const int64_t row = made.leftFirst + test::offsetAt(position, leftStrides);
        const int64_t column = made.rightFirst + test::offsetAt(position, rightStrides);
        Total total = 0;
        for (int64_t i = 0; i < x.k; ++i) {
          total += static_cast<Total>(made.left.read<C>(row + i * leftStep)) *
                   static_cast<Total>(made.right.read<C>(column + i * rightStep));
        }
        expected.write(place++, static_cast<C>(total));
      });
    });
    const Elements actual = run(x.outputType, expected.count(), [&](void* output, const RunContext& context) {
      operators::typedMatmul(x, made.left.at(made.leftFirst), made.right.at(made.rightFirst), output, context);
    });
    requireSame(actual, expected);
  }
}

TEST_CASE("typed matmul and sums of doubles within the rounding of a plain sum") {
  Random random;
  constexpr int64_t kRows = 20, kLength = 777;
  std::vector<double> left(size(kRows * kLength)), right(size(kLength * kRows));
  for (std::vector<double>* values : {&left, &right}) {
    for (double& value : *values) value = std::ldexp(static_cast<double>(random.bits()) - 0x1p63, -63);
  }
  TypedMatmulStep product;
  product.m = product.n = kRows, product.k = kLength;
  product.leftStrides = {kLength, 1}, product.rightStrides = {kRows, 1};
  const std::vector<double> actual =
      run(ElementType::float64, kRows * kRows, [&](void* output, const RunContext& context) {
        operators::typedMatmul(product, left.data(), right.data(), output, context);
      }).as<double>();
  const TypedReduceStep squares{
      .mode = ReduceStep::Mode::sumOfSquares, .type = ElementType::float64, .outer = kRows, .reduced = kLength};
  const std::vector<double> sums = run(ElementType::float64, kRows, [&](void* output, const RunContext& context) {
                                     operators::typedReduce(squares, left.data(), output, context);
                                   }).as<double>();
  constexpr long double kAllowed = kLength * std::numeric_limits<double>::epsilon();
  for (int64_t i = 0; i < kRows; ++i) {
    long double square = 0;
    for (int64_t l = 0; l < kLength; ++l) {
      const auto element = static_cast<long double>(left[size(i * kLength + l)]);
      square += element * element;
    }
    REQUIRE(std::abs(sums[size(i)] - square) <= kAllowed * square);
    for (int64_t j = 0; j < kRows; ++j) {
      long double exact = 0, bound = 0;
      for (int64_t l = 0; l < kLength; ++l) {
        const long double one = static_cast<long double>(left[size(i * kLength + l)]) * right[size(l * kRows + j)];
        exact += one, bound += std::abs(one);
      }
      REQUIRE(std::abs(actual[size(i * kRows + j)] - exact) <= kAllowed * bound);
    }
  }
}

// ---------------------------------------------------------------------------------------------------- cancellation

TEST_CASE("typed steps that are cancelled leave their work undone") {
  Cancellation cancellation;
  cancellation.request();
  const RunContext context{.cancellation = &cancellation};
  const std::vector<float> input(4096, 1.0f);
  const std::vector<int64_t> indices(4096, 0);
  std::vector<float> output(8192, 7.0f);
  const void* const operands[] = {input.data()};
  operators::map(test::castStep(ElementType::float32, ElementType::int32, 4096), operands, output.data(), context);
  operators::sort({.outer = 64, .length = 64, .count = 64}, input.data(), reinterpret_cast<int64_t*>(output.data()),
                  context);
  operators::scan({.outer = 64, .length = 64}, input.data(), output.data(), context);
  operators::typedReduce({.type = ElementType::float32, .outer = 64, .reduced = 64}, input.data(), output.data(),
                         context);
  TypedMatmulStep product{.compute = ElementType::float64,
                          .leftType = ElementType::float32,
                          .rightType = ElementType::float32,
                          .outputType = ElementType::float32};
  product.m = product.n = product.k = 64;
  product.leftStrides = product.rightStrides = {64, 1};
  operators::typedMatmul(product, input.data(), input.data(), output.data(), context);
  const IndexedStep scatter{.mode = Mode::add,
                            .extents = {4096},
                            .valueStrides = {1},
                            .dataStrides = {0},
                            .indexStrides = {1},
                            .serialAxes = 1,
                            .axes = {4096},
                            .axisStrides = {1},
                            .dataCount = 4096,
                            .indexCount = 4096};
  CHECK(operators::indexed(scatter, indices.data(), input.data(), output.data(), context).code() ==
        StatusCode::aborted);
  CHECK(std::all_of(output.begin(), output.end(), [](float value) { return value == 7.0f; }));
}
