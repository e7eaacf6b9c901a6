#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

/** NHWC, of halves or float32; pixels touch each other only where their channels are a multiple of 8. */
TensorFormat anyFormat(std::mt19937& random, FloatType type, int64_t channels) {
  const int64_t least = (channels + 7) / 8 * 8;
  return {type, Layout::nhwc,
          random() % 3 == 0   ? least + 8 * static_cast<int64_t>(random() % 3)
          : channels == least ? 0
                              : least};
}

ConvFormat anyConvFormat(std::mt19937& random, const ConvProblem& x) {
  const FloatType half = random() % 2 == 0 ? FloatType::float16 : FloatType::bfloat16;
  const auto sums = [&] { return anyFormat(random, random() % 4 == 0 ? FloatType::float32 : half, x.k); };
  return {anyFormat(random, half, x.c), sums(), sums()};
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

test::GpuCase makeCase(const ConvProblem& x, test::Values values, bool withResidual, std::mt19937& random) {
  test::GpuCase given = test::makeCase(x, values, random() % 2 == 0, withResidual, random);
  return {x, rounded(given.input, x.format.input.type), rounded(given.weight, x.format.input.type),
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
  if (implicit.refusal(test::requestFor(problem, ""))) return false;
  const test::GpuCase one = makeCase(problem, values, random() % 2 == 0, random);
  const test::GpuReference reference = test::referenceOnGpu(one);
  test::check(cudaDeviceSynchronize());
  std::vector<std::string> variants{""};
  variants.insert(variants.end(), implicit.variants.begin(), implicit.variants.end());
  for (const std::string& variant : variants) {
    const cuda::GpuRequest request = test::requestFor(problem, variant);
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
