#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/algorithm.h"
#include "support/formatted.h"
#include "support/one_step.h"
#include "support/runs.h"

using namespace warpconv;
using test::size;
using test::TensorExtents;

namespace {

int rounds() {
  const char* given = std::getenv("WARPCONV_GPU_FUZZ");
  return given != nullptr ? std::atoi(given) : 400;
}

/** NHWC, of halves or float32; pixels touch each other only where their channels are a multiple of `piece`. */
TensorFormat anyFormat(std::mt19937& random, FloatType type, int64_t channels, int64_t piece) {
  const int64_t least = (channels + piece - 1) / piece * piece;
  return {type, Layout::nhwc,
          random() % 3 == 0   ? least + piece * static_cast<int64_t>(random() % 3)
          : channels == least ? 0
                              : least};
}

ConvFormat anyConvFormat(std::mt19937& random, const ConvProblem& x) {
  constexpr FloatType kTypes[] = {FloatType::float16, FloatType::bfloat16, FloatType::float32};
  const FloatType type = kTypes[random() % 3];
  const int64_t piece = 16 / widthOf(type);
  const auto sums = [&] { return anyFormat(random, random() % 4 == 0 ? FloatType::float32 : type, x.k, piece); };
  return {anyFormat(random, type, x.c, piece), sums(), sums()};
}

cuda::GpuRequest requestFor(const ConvProblem& problem, const std::string& variant) {
  cuda::GpuRequest request = test::requestFor(problem, variant);
  if (problem.format.input.type == FloatType::float32) request.precision = Precision::tf32;
  return request;
}

/** To the 11 bits of TF32, ties to even. */
float roundedToTf32(float value) {
  int exponent = 0;
  if (!std::isfinite(value)) return value;
  const double fraction = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11));
}

/** The same numbers, rounded to a type. */
test::DeviceArray<float> rounded(const test::DeviceArray<float>& given, FloatType type) {
  std::vector<float> values = given.toHost();
  for (float& value : values) {
    uint8_t bytes[4];
    test::putValue(type, value, bytes);
    value = static_cast<float>(test::valueAt(type, bytes));
  }
  return test::DeviceArray<float>(values);
}

/** The same numbers, as products have them. */
test::DeviceArray<float> asFactors(const test::DeviceArray<float>& given, FloatType type) {
  if (type != FloatType::float32) return rounded(given, type);
  std::vector<float> values = given.toHost();
  for (float& value : values) value = roundedToTf32(value);
  return test::DeviceArray<float>(values);
}

test::GpuCase makeCase(const ConvProblem& x, test::Values values, bool withResidual, std::mt19937& random) {
  test::GpuCase given = test::makeCase(x, values, random() % 2 == 0, withResidual, random);
  return {x, asFactors(given.input, x.format.input.type), asFactors(given.weight, x.format.input.type),
          std::move(given.bias),
          withResidual ? rounded(given.residual, x.format.residual.type) : std::move(given.residual)};
}

/** The output's memory. */
std::vector<uint8_t> outputOf(const cuda::GpuRequest& request, const test::GpuCase& one) {
  const ConvProblem& x = request.problem;
  const TensorExtents inputs{x.n, x.c, x.h * x.w}, outputs{x.n, x.k, x.p * x.q};
  const auto prepared = test::prepare(cuda::gpuAlgorithm("implicit"), request, one);
  const test::DeviceArray<uint8_t> input(test::laidOut(x.format.input, inputs, one.input.toHost()));
  const bool hasResidual = one.residual.size() > 0;
  const test::DeviceArray<uint8_t> residual(
      hasResidual ? test::laidOut(x.format.residual, outputs, one.residual.toHost()) : std::vector<uint8_t>{});
  const test::DeviceArray<uint8_t> output(test::untouched(x.format.output, outputs));
  const Status status =
      prepared->enqueue({input.data(), hasResidual ? residual.data() : nullptr, output.data()}, nullptr, nullptr);
  if (!status.isOk()) FAIL(status.message());
  test::check(cudaStreamSynchronize(nullptr));
  return output.toHost();
}

/** Half of the distance of neighbouring numbers, relative to them. */
double roundingOf(FloatType type) {
  return std::ldexp(1.0, type == FloatType::float16 ? -11 : type == FloatType::bfloat16 ? -8 : -24);
}

/** Within what rounding once leaves, and what is lost as tensor cores add up in float32. */
bool isClose(double made, double expected, double bound, FloatType type) {
  constexpr double kOfSums = 2e-5;
  if (std::isnan(expected)) return std::isnan(made);
  if (std::isinf(expected)) return made == expected;
  const double smallest = type == FloatType::float16 ? std::ldexp(1.0, -24) : 0.0;
  return std::abs(made - expected) <= roundingOf(type) * std::abs(expected) + kOfSums * bound + smallest;
}

void check(const cuda::GpuRequest& request, const test::GpuCase& one, const test::GpuReference& reference,
           test::Values values) {
  const ConvProblem& x = request.problem;
  const TensorExtents outputs{x.n, x.k, x.p * x.q};
  INFO("'" << request.variant << "', " << describe(x) << ", " << test::shown(x.format.input) << " to "
           << test::shown(x.format.output) << ", residual " << test::shown(x.format.residual));
  const std::vector<uint8_t> made = outputOf(request, one);
  const std::vector<double> expected = reference.output.toHost();
  if (values != test::Values::reals) {
    test::requireSameTensor(x.format.output, outputs, made, test::laidOut(x.format.output, outputs, expected));
    return;
  }
  const std::vector<double> bounds = reference.bound.toHost(), numbers = test::valuesOf(x.format.output, outputs, made);
  for (size_t i = 0; i < numbers.size(); ++i) {
    INFO("output " << i << " is " << numbers[i] << " and should be " << expected[i]);
    REQUIRE(isClose(numbers[i], expected[i], bounds[i], x.format.output.type));
  }
}

/** In every variant. False where the algorithm takes none of that. */
bool checkVariants(ConvProblem problem, test::Values values, std::mt19937& random, std::set<int64_t>& splits) {
  const cuda::GpuAlgorithm& implicit = cuda::gpuAlgorithm("implicit");
  problem.format = anyConvFormat(random, problem);
  if (implicit.refusal(requestFor(problem, ""))) return false;
  const test::GpuCase one = makeCase(problem, values, random() % 2 == 0, random);
  const test::GpuReference reference = test::referenceOnGpu(one);
  test::check(cudaDeviceSynchronize());
  std::vector<std::string> variants{""};
  variants.insert(variants.end(), implicit.variants.begin(), implicit.variants.end());
  for (const std::string& variant : variants) {
    const cuda::GpuRequest request = requestFor(problem, variant);
    if (implicit.refusal(request)) continue;
    for (const auto& [name, value] : implicit.estimate(request).tiles) {
      if (name == "splits") splits.insert(value);
    }
    check(request, one, reference, values);
  }
  return true;
}

}  // namespace

TEST_CASE("implicit fuzzed in every variant and format: integers exactly, reals rounded once, NaN and infinity") {
  if (test::device().traits().computeCapability != 90) return;
  std::mt19937 random(test::fuzzSeed());
  const double most = rounds() <= 10 ? 2e6 : 2e7;
  std::set<int64_t> splits;
  for (int taken = 0, tried = 0; taken < rounds(); ++tried) {
    REQUIRE_MESSAGE(tried < 100 * rounds() + 1000, "implicit refuses nearly every problem");
    const ConvProblem problem = tried < 2    ? test::longReduction(1 + 2 * tried)
                                : tried == 2 ? test::manyTiles()
                                             : test::randomProblem(random, most);
    if (problem.groups > 1 || problem.multiplyAdds() > most) continue;
    const test::Values values[] = {test::Values::integers, test::Values::reals, test::Values::nonFinite};
    if (checkVariants(problem, values[random() % 3], random, splits)) ++taken;
  }
  if (rounds() > 10) CHECK(splits == std::set<int64_t>{1, 2, 4, 8});
}

TEST_CASE("implicit on layers of networks, in every variant and format, exactly") {
  if (test::device().traits().computeCapability != 90) return;
  std::mt19937 random(2);
  std::set<int64_t> splits;
  for (const auto& [name, problem] : test::namedProblems(1)) {
    INFO(name);
    constexpr int64_t kMostOutputs = int64_t{1} << 20;
    const bool isSmall = std::max(problem.inputSize(), problem.outputSize()) <= kMostOutputs;
    if (problem.groups == 1 && isSmall) checkVariants(problem, test::Values::integers, random, splits);
  }
}

namespace {

/** Of pixels of 32 channels to as many, each a sum of one row of the matrix of weights. */
ConvProblem ofRows(int64_t pixels) {
  ConvRequest asked;
  asked.inputDims = {1, 32, 1, pixels};
  asked.weightDims = {32, 32, 1, 1};
  const TensorFormat floats{FloatType::float32, Layout::nhwc, 0};
  asked.format = {floats, floats, floats};
  return makeConvProblem(asked).value();
}

std::vector<double> productOf(const ConvProblem& x, const std::vector<float>& input, const std::vector<float>& weight) {
  const test::GpuCase one{x, test::DeviceArray<float>(input), test::DeviceArray<float>(weight),
                          test::DeviceArray<float>(size_t{0}), test::DeviceArray<float>(size_t{0})};
  return test::valuesOf(x.format.output, {1, 32, x.q}, outputOf(requestFor(x, ""), one));
}

std::vector<float> diagonal(const std::vector<float>& values) {
  std::vector<float> matrix(32 * 32);
  for (size_t i = 0; i < 32; ++i) matrix[33 * i] = values[i];
  return matrix;
}

float numberOf(uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

}  // namespace

TEST_CASE("implicit rounds both factors of TF32 to the nearest, and keeps NaN and infinity") {
  if (test::device().traits().computeCapability != 90) return;
  constexpr size_t kPixels = 200;
  const ConvProblem x = ofRows(kPixels);
  const std::vector<float> ones(32, 1.0f);
  std::mt19937 random(test::fuzzSeed());
  std::vector<float> input(32 * kPixels);
  // Every fourth is half way between its neighbours. Numbers below 2^-126 are among them.
  for (size_t i = 0; i < input.size(); ++i) {
    const uint32_t bits = random() & 0xbfffffff;
    input[i] = numberOf(i % 4 == 0 ? (bits & ~0x1fffu) | 0x1000 : bits);
  }
  const std::vector<double> made = productOf(x, input, diagonal(ones));
  for (size_t i = 0; i < input.size(); ++i) {
    INFO("factor " << i << " is " << input[i]);
    if (std::abs(input[i]) >= 0x1p-126f) REQUIRE(made[i] == static_cast<double>(roundedToTf32(input[i])));
  }
  std::vector<float> weights(input.begin(), input.begin() + 32);
  const std::vector<double> ofWeights = productOf(x, std::vector<float>(input.size(), 1.0f), diagonal(weights));
  for (size_t k = 0; k < 32; ++k) {
    if (std::abs(weights[k]) < 0x1p-126f) continue;
    INFO("weight " << k << " is " << weights[k]);
    const double error = std::abs(ofWeights[k * kPixels] - static_cast<double>(weights[k]));
    REQUIRE(error <= std::ldexp(std::abs(static_cast<double>(weights[k])), -11));
  }
  // The bits of this NaN that TF32 has are those of infinity.
  for (const float strange : {numberOf(0x7f800001), numberOf(0xffc00000), numberOf(0x7f800000), numberOf(0xff800000)}) {
    std::vector<float> one(input.size());
    one[0] = strange;
    const auto isSame = [&](double value) { return std::isnan(strange) ? std::isnan(value) : value == strange; };
    CHECK(isSame(productOf(x, one, diagonal(ones))[0]));
    std::vector<float> other(ones);
    other[0] = strange;
    CHECK(isSame(productOf(x, std::vector<float>(input.size(), 1.0f), diagonal(other))[0]));
  }
}

TEST_CASE("implicit multiplies integers of 11 bits exactly by TF32") {
  if (test::device().traits().computeCapability != 90) return;
  constexpr size_t kPixels = 300;
  const ConvProblem x = ofRows(kPixels);
  std::mt19937 random(3);
  std::uniform_int_distribution<int> wide(-2048, 2048), narrow(-256, 256);
  std::vector<float> input(32 * kPixels), weight(32 * 32);
  for (float& value : input) value = static_cast<float>(wide(random));
  for (float& value : weight) value = static_cast<float>(narrow(random));
  const std::vector<double> made = productOf(x, input, weight);
  for (size_t k = 0; k < 32; ++k) {
    for (size_t pixel = 0; pixel < kPixels; ++pixel) {
      double sum = 0;
      for (size_t c = 0; c < 32; ++c) {
        sum += static_cast<double>(input[c * kPixels + pixel]) * static_cast<double>(weight[k * 32 + c]);
      }
      REQUIRE(made[k * kPixels + pixel] == sum);
    }
  }
}

TEST_CASE("implicit by TF32 is within its bound of a sum in float64, whatever bits factors have") {
  if (test::device().traits().computeCapability != 90) return;
  const double bound = std::ldexp(1.0, -10) + 2e-5;
  std::mt19937 random(test::fuzzSeed());
  for (int taken = 0; taken < 20;) {
    ConvProblem problem = test::randomProblem(random, 2e7);
    const TensorFormat floats{FloatType::float32, Layout::nhwc, 0};
    problem.format = {floats, floats, floats};
    const cuda::GpuRequest request = requestFor(problem, "");
    if (cuda::gpuAlgorithm("implicit").refusal(request)) continue;
    ++taken;
    INFO(describe(problem));
    const test::GpuCase one = test::makeCase(problem, test::Values::reals, true, true, random);
    const test::GpuReference reference = test::referenceOnGpu(one);
    test::check(cudaDeviceSynchronize());
    const std::vector<double> made =
        test::valuesOf(problem.format.output, {problem.n, problem.k, problem.p * problem.q}, outputOf(request, one));
    const std::vector<double> expected = reference.output.toHost(), bounds = reference.bound.toHost();
    for (size_t i = 0; i < made.size(); ++i) REQUIRE(std::abs(made[i] - expected[i]) <= bound * bounds[i]);
  }
}
