#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <set>

#include "support/runs.h"

using namespace warpconv;

namespace {

/** Of float32, by the numerics rules. */
constexpr double kTolerance = 4e-6;

/** Problems for each algorithm: many, or few under a sanitizer, by WARPCONV_GPU_FUZZ. */
int fuzzRounds() {
  const char* given = std::getenv("WARPCONV_GPU_FUZZ");
  return given != nullptr ? std::atoi(given) : 2500;
}

/** Multiply-adds of a problem at most: under a sanitizer, which takes a hundred times as long and more, few. */
double mostMultiplyAdds() { return fuzzRounds() <= 10 ? 2e6 : 3e7; }

/** Calls visit(algorithm, variant) for each that takes the problem. */
void forEachVariant(const ConvProblem& problem, auto&& visit) {
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
    for (const std::string& variant : test::variantsFor(algorithm, problem)) visit(algorithm, variant);
  }
}

void checkExact(const cuda::GpuAlgorithm& algorithm, const std::string& variant, const test::GpuCase& one,
                const test::GpuReference& reference) {
  const test::GuardedOutput output = test::run(algorithm, test::requestFor(one.problem, variant), one);
  INFO(std::string(algorithm.name) << " '" << variant << "', " << describe(one.problem));
  REQUIRE(output.guardsIntact());
  REQUIRE(test::compareOnGpu(output.data(), reference, kTolerance).unequal == 0);
}

void checkWithin(const cuda::GpuAlgorithm& algorithm, const std::string& variant, const test::GpuCase& one,
                 const test::GpuReference& reference) {
  const test::GuardedOutput output = test::run(algorithm, test::requestFor(one.problem, variant), one);
  INFO(std::string(algorithm.name) << " '" << variant << "', " << describe(one.problem));
  REQUIRE(test::compareOnGpu(output.data(), reference, kTolerance).outside == 0);
}

}  // namespace

TEST_CASE("every algorithm and variant on fuzzed problems: integers exactly, reals within the rule, NaN and infinity") {
  std::mt19937 random(test::fuzzSeed());
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
    int taken = 0;
    int tried = 0;
    for (const int rounds = fuzzRounds(); taken < rounds; ++tried) {
      REQUIRE_MESSAGE(tried < 100 * rounds, std::string(algorithm.name) << " refuses nearly every problem");
      const ConvProblem problem = tried < 2    ? test::longReduction(1 + 2 * tried)
                                  : tried == 2 ? test::manyTiles()
                                               : test::randomProblem(random, mostMultiplyAdds());
      if (problem.multiplyAdds() > mostMultiplyAdds()) continue;
      const std::vector<std::string> variants = test::variantsFor(algorithm, problem);
      if (variants.empty()) continue;
      ++taken;
      const test::Values values[] = {test::Values::integers, test::Values::reals, test::Values::nonFinite};
      const test::Values which = values[random() % 3];
      const test::GpuCase one = test::makeCase(problem, which, random() % 2 == 0, random() % 3 == 0, random);
      const test::GpuReference reference = test::referenceOnGpu(one);
      const auto check = which == test::Values::reals ? checkWithin : checkExact;
      for (const std::string& variant : variants) check(algorithm, variant, one, reference);
    }
    MESSAGE(std::string(algorithm.name) << ": " << taken << " problems of " << tried);
  }
}

TEST_CASE("every algorithm and variant on the named layers, exactly") {
  std::mt19937 random(1);
  for (const int64_t batch : {1, 4}) {
    for (const auto& [name, problem] : test::namedProblems(batch)) {
      INFO(name << ", batch " << batch);
      const test::GpuCase one = test::makeCase(problem, test::Values::integers, true, false, random);
      const test::GpuReference reference = test::referenceOnGpu(one);
      forEachVariant(problem, [&](const cuda::GpuAlgorithm& algorithm, const std::string& variant) {
        checkExact(algorithm, variant, one, reference);
      });
    }
  }
}

TEST_CASE("halo's small tile with each number of blocks a cluster, and of elements that a thread holds, exactly") {
  const cuda::GpuAlgorithm& halo = cuda::gpuAlgorithm("halo");
  std::mt19937 random(4);
  std::set<int64_t> clusters;
  // Of patches of up to 128 elements, 256, 384 and more
  for (const int64_t width : {8, 40, 100, 200}) {
    for (const int64_t chunks : {1, 2, 3, 4, 5, 6, 7, 8, 20}) {
      ConvRequest asked;
      asked.inputDims = {1, 16 * chunks, 3, width};
      asked.weightDims = {64, 16 * chunks, 3, 3};
      asked.padding = {1, 1, 1, 1};
      const ConvProblem problem = makeConvProblem(asked).value();
      const cuda::GpuRequest request = test::requestFor(problem, "64x64");
      // Products of warpgroups are of compute capability 9.0 alone.
      if (halo.refusal(request)) continue;
      for (const auto& [name, value] : halo.estimate(request).tiles) {
        if (name == "splits") clusters.insert(value);
      }
      // With a residual a kernel is not one of those for what most problems need.
      for (const bool withResidual : {false, true}) {
        const test::GpuCase one = test::makeCase(problem, test::Values::integers, true, withResidual, random);
        checkExact(halo, "64x64", one, test::referenceOnGpu(one));
      }
    }
  }
  if (test::device().traits().computeCapability == 90) CHECK(clusters == std::set<int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("plans made later leave those made before as they are, as a network's do") {
  std::mt19937 random(3);
  struct Planned {
    cuda::GpuRequest request;
    test::GpuCase tensors;
    std::unique_ptr<cuda::GpuConvolution> prepared;
  };
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
    std::vector<Planned> plans;
    for (const auto& [name, problem] : test::namedProblems(1)) {
      if (test::variantsFor(algorithm, problem).empty()) continue;
      const cuda::GpuRequest request = test::requestFor(problem, "");
      test::GpuCase tensors = test::makeCase(problem, test::Values::integers, true, false, random);
      auto prepared = test::prepare(algorithm, request, tensors);
      plans.push_back({request, std::move(tensors), std::move(prepared)});
    }
    CHECK(!plans.empty());
    for (const auto& [request, tensors, prepared] : plans) {
      const int64_t workspaceBytes = algorithm.estimate(request).workspaceBytes;
      const test::GuardedOutput output = test::run(*prepared, workspaceBytes, tensors);
      INFO(std::string(algorithm.name) << ", " << describe(tensors.problem));
      CHECK(test::compareOnGpu(output.data(), test::referenceOnGpu(tensors), kTolerance).unequal == 0);
    }
  }
}

TEST_CASE("all-positive data: rounding adds up to no more than twice that of a sequential sum") {
  std::mt19937 random(2);
  for (const auto& [name, problem] : test::namedProblems(1)) {
    if (problem.filterSize() < 64) continue;
    const test::GpuCase one = test::makeCase(problem, test::Values::positive, false, false, random);
    const test::GpuReference reference = test::referenceOnGpu(one);
    INFO(name);
    forEachVariant(problem, [&](const cuda::GpuAlgorithm& algorithm, const std::string& variant) {
      const test::GuardedOutput output = test::run(algorithm, test::requestFor(problem, variant), one);
      const test::Comparison compared = test::compareOnGpu(output.data(), reference, kTolerance);
      INFO(std::string(algorithm.name) << " '" << variant << "'");
      CHECK(compared.error <= 2 * compared.sequentialError);
    });
  }
}

TEST_CASE("an identity of 1 x 1 filters gives back what it gets, the largest numbers and small ones too") {
  ConvRequest request;
  request.inputDims = {2, 40, 9, 8};
  request.weightDims = {40, 40, 1, 1};
  const ConvProblem problem = makeConvProblem(request).value();
  std::mt19937 random(test::fuzzSeed());
  std::vector<float> input(static_cast<size_t>(problem.inputSize())), weight(40 * 40);
  const float largest = std::numeric_limits<float>::max();
  // Of few digits: tensor cores may lose the last of 24, and more of numbers below 2^-113.
  const float smallest = std::ldexp(1.25f, -112);
  const float ends[] = {largest, std::nextafter(largest, 0.0f), 0.9998f * largest, 0.375f, smallest};
  for (float& value : input) value = ends[random() % std::size(ends)] * (random() % 2 == 0 ? 1.0f : -1.0f);
  for (size_t k = 0; k < 40; ++k) weight[k * 40 + k] = 1.0f;
  const test::GpuCase one{problem, test::DeviceArray<float>(input), test::DeviceArray<float>(weight),
                          test::DeviceArray<float>(0), test::DeviceArray<float>(0)};
  const test::GpuReference reference = test::referenceOnGpu(one);
  forEachVariant(problem, [&](const cuda::GpuAlgorithm& algorithm, const std::string& variant) {
    checkExact(algorithm, variant, one, reference);
  });
}

TEST_CASE("elements keep their digits beside others that are up to 2^60 times larger, whose weights are zero") {
  std::mt19937 random(test::fuzzSeed());
  std::uniform_real_distribution<float> reals(-1.0f, 1.0f);
  for (const int64_t stride : {1, 2}) {
    ConvRequest request;
    request.inputDims = {3, 40, 15, 17};
    request.weightDims = {24, 40, 5, 5};
    request.stride = {stride, stride};
    request.padding = {2, 2, 2, 2};
    const ConvProblem problem = makeConvProblem(request).value();
    std::vector<float> input(static_cast<size_t>(problem.inputSize()));
    std::vector<float> weight(static_cast<size_t>(problem.weightSize()));
    const size_t map = static_cast<size_t>(problem.h * problem.w), window = static_cast<size_t>(problem.r * problem.s);
    const auto isLarge = [&](size_t channel) { return channel % 3 == 0; };
    // Of an image's other channels: halves of FP16 hold all of their digits, some, and none.
    constexpr int kExponents[] = {-12, -33, -60};
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = std::ldexp(reals(random), isLarge(i / map % 40) ? 0 : kExponents[i / map / 40]);
    }
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = isLarge(i / window % 40) ? 0.0f : reals(random);
    const test::GpuCase one{problem, test::DeviceArray<float>(input), test::DeviceArray<float>(weight),
                            test::DeviceArray<float>(0), test::DeviceArray<float>(0)};
    const test::GpuReference reference = test::referenceOnGpu(one);
    forEachVariant(problem, [&](const cuda::GpuAlgorithm& algorithm, const std::string& variant) {
      checkWithin(algorithm, variant, one, reference);
    });
  }
}

TEST_CASE("bitwise the same output every time") {
  std::mt19937 random(test::fuzzSeed());
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
    for (int taken = 0; taken < 20;) {
      const ConvProblem problem = test::randomProblem(random, 3e7);
      const test::GpuCase one = test::makeCase(problem, test::Values::reals, true, false, random);
      for (const std::string& variant : test::variantsFor(algorithm, problem)) {
        ++taken;
        const cuda::GpuRequest request = test::requestFor(problem, variant);
        // The first output is the reference of the second, bit for bit.
        const test::GuardedOutput first = test::run(algorithm, request, one);
        const test::GuardedOutput second = test::run(algorithm, request, one);
        const auto count = static_cast<size_t>(problem.outputSize());
        std::vector<float> a(count), b(count);
        test::check(cudaMemcpy(a.data(), first.data(), count * sizeof(float), cudaMemcpyDeviceToHost));
        test::check(cudaMemcpy(b.data(), second.data(), count * sizeof(float), cudaMemcpyDeviceToHost));
        INFO(std::string(algorithm.name) << " '" << variant << "', " << describe(problem));
        REQUIRE(a == b);
      }
    }
  }
}

TEST_CASE("every algorithm finishes outputs with bias, residual and activation") {
  struct Case {
    const char* name;
    std::vector<double> parameters;
    double (*expected)(double);
    /** Of x, where it is negative: what 1 + erf(x) loses */
    double lost = 0;
  };
  const Case cases[] = {
      {"relu", {}, [](double x) { return x < 0 ? 0 : x; }},
      {"leakyRelu", {0.125}, [](double x) { return x < 0 ? 0.125 * x : x; }},
      {"clip", {-20.0, 30.0}, [](double x) { return std::min(std::max(x, -20.0), 30.0); }},
      {"sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"silu", {}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"hardSwish", {}, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {"gelu", {}, [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }, 1.5e-7},
  };
  std::mt19937 random(test::fuzzSeed());
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
    for (int taken = 0; taken < 5;) {
      const ConvProblem problem = test::randomProblem(random, 1e6);
      for (const std::string& variant : test::variantsFor(algorithm, problem)) {
        ++taken;
        const test::GpuCase one = test::makeCase(problem, test::Values::integers, true, true, random);
        const std::vector<double> sums = test::referenceOnGpu(one).output.toHost();
        for (const Case& activation : cases) {
          const Activation made = makeActivation(activation.name, activation.parameters).value();
          const test::GuardedOutput output = test::run(algorithm, test::requestFor(problem, variant, made), one);
          std::vector<float> values(sums.size());
          test::check(cudaMemcpy(values.data(), output.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost));
          INFO(std::string(algorithm.name) << " '" << variant << "' " << activation.name << ", " << describe(problem));
          for (size_t i = 0; i < values.size(); ++i) {
            const double expected = activation.expected(sums[i]);
            const double lost = activation.lost * std::max(0.0, -sums[i]);
            REQUIRE(std::abs(double{values[i]} - expected) <= 1e-6 * std::abs(expected) + 1e-35 + lost);
          }
        }
      }
    }
  }
}
