#include "support/runs.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace warpconv::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> choices) {
  return choices.begin()[random() % choices.size()];
}

ConvRequest anyRequest(std::mt19937& random) {
  ConvRequest request;
  const bool depthwise = random() % 4 == 0;
  const int64_t groups = depthwise ? pick(random, {1, 3, 8, 33}) : pick(random, {1, 1, 1, 2, 5});
  const int64_t groupInputs = depthwise ? 1 : pick(random, {1, 2, 3, 7, 8, 9, 16, 31, 33, 64});
  const int64_t groupOutputs = pick(random, {1, 1, 2, 7, 8, 9, 23, 24, 48, 64, 127, 128, 130});
  request.groups = groups;
  request.inputDims = {pick(random, {1, 1, 2, 3}), groups * groupInputs,
                       pick(random, {1, 2, 3, 5, 7, 8, 14, 28, 57, 60}),
                       pick(random, {1, 2, 4, 5, 7, 8, 14, 27, 28, 31, 32, 33, 34, 36, 63, 64, 65, 97, 130})};
  request.weightDims = {groups * groupOutputs, groupInputs, pick(random, {1, 1, 2, 3, 3, 3, 4, 5, 5, 7, 11}), 1};
  request.weightDims[3] = random() % 2 == 0 ? request.weightDims[2] : pick(random, {1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 11});
  request.stride = {pick(random, {1, 1, 1, 2, 3}), pick(random, {1, 1, 1, 2, 2, 3, 4})};
  if (random() % 2 == 0) request.stride.h = request.stride.w;
  request.dilation = {pick(random, {1, 1, 1, 2}), pick(random, {1, 1, 1, 2, 3})};
  request.padding = {pick(random, {0, 0, 1, 1, 2, 3}), pick(random, {0, 0, 1, 1, 2, 5}), pick(random, {0, 1, 1, 3}),
                     pick(random, {0, 1, 1, 2})};
  if (random() % 4 == 0) request.padding = {0, 0, 0, 0};
  request.paddingMode = random() % 6 == 0 ? PaddingMode::same : PaddingMode::given;
  return request;
}

std::vector<float> fill(size_t count, Values values, std::mt19937& random) {
  std::vector<float> result(count);
  std::uniform_int_distribution<int> integer(-7, 7);
  std::uniform_real_distribution<float> real(-1.0f, 1.0f);
  std::uniform_real_distribution<float> positive(0.0f, 1.0f);
  for (float& value : result) {
    switch (values) {
      case Values::integers: value = static_cast<float>(integer(random)); break;
      case Values::reals: value = real(random); break;
      case Values::positive: value = positive(random); break;
      case Values::nonFinite: value = static_cast<float>(integer(random)); break;
    }
  }
  if (values != Values::nonFinite) return result;
  // A few, so that most outputs stay finite and a leak shows.
  const float strange[] = {kNaN, kInfinity, -kInfinity};
  for (size_t i = 0; i < 1 + count / 200; ++i) result[random() % count] = strange[random() % 3];
  return result;
}

}  // namespace

cuda::Device& device() {
  const Result<cuda::Device*> opened = cuda::Device::open(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return *opened.value();
}

GuardedOutput::GuardedOutput(int64_t count)
    : memory_(std::vector<float>(static_cast<size_t>(count) + 2 * kGuard, kNaN)) {}

bool GuardedOutput::guardsIntact() const {
  const std::vector<float> all = memory_.toHost();
  for (size_t i = 0; i < kGuard; ++i) {
    if (!std::isnan(all[i]) || !std::isnan(all[all.size() - 1 - i])) return false;
  }
  return true;
}

cuda::GpuRequest requestFor(const ConvProblem& problem, std::string variant, const Activation& activation) {
  return {problem, activation, std::move(variant), device().traits()};
}

cuda::Queue& queue() {
  // Kept until the process ends, as the device is.
  static const auto* const opened = new Result<std::shared_ptr<cuda::Queue>>(cuda::Queue::create(device()));
  if (!opened->isOk()) FAIL(opened->status().message());
  return *opened->value();
}

std::unique_ptr<cuda::GpuConvolution> prepare(const cuda::GpuAlgorithm& algorithm, const cuda::GpuRequest& request,
                                              const GpuCase& one) {
  // A copy from pageable memory may still be under way, on a stream that those that order filters do not wait for.
  check(cudaDeviceSynchronize());
  Weights forms(nullptr, one.problem.k, one.problem.filterSize());
  cuda::Tables tables(queue());
  auto prepared = algorithm.prepare(request, {forms, one.bias.data(), queue(), tables, one.weight.data()});
  if (!prepared.isOk()) FAIL(prepared.status().message());
  return std::move(prepared.value());
}

GuardedOutput run(const cuda::GpuConvolution& prepared, int64_t workspaceBytes, const GpuCase& one) {
  const DeviceArray<char> workspace(static_cast<size_t>(workspaceBytes));
  GuardedOutput output(one.problem.outputSize());
  const Status status =
      prepared.enqueue({one.input.data(), one.residual.data(), output.data()}, workspace.data(), nullptr);
  if (!status.isOk()) FAIL(status.message());
  check(cudaStreamSynchronize(nullptr));
  return output;
}

GuardedOutput run(const cuda::GpuAlgorithm& algorithm, const cuda::GpuRequest& request, const GpuCase& one) {
  return run(*prepare(algorithm, request, one), algorithm.estimate(request).workspaceBytes, one);
}

GpuCase makeCase(const ConvProblem& x, Values values, bool withBias, bool withResidual, std::mt19937& random) {
  const auto tensor = [&](int64_t count, Values which) {
    return DeviceArray<float>(fill(static_cast<size_t>(count), which, random));
  };
  const Values others = values == Values::nonFinite ? Values::integers : values;
  return {x, tensor(x.inputSize(), values), tensor(x.weightSize(), others), tensor(withBias ? x.k : 0, others),
          tensor(withResidual ? x.outputSize() : 0, others)};
}

ConvProblem randomProblem(std::mt19937& random, double mostMultiplyAdds) {
  while (true) {
    const Result<ConvProblem> problem = makeConvProblem(anyRequest(random));
    if (problem.isOk() && problem.value().multiplyAdds() <= mostMultiplyAdds) return problem.value();
  }
}

ConvProblem longReduction(int64_t window) {
  const int64_t channels = 2304 / (window * window);
  ConvRequest request;
  request.inputDims = {1, channels, 12, 12};
  request.weightDims = {64, channels, window, window};
  request.paddingMode = PaddingMode::same;
  return makeConvProblem(request).value();
}

ConvProblem manyTiles() {
  ConvRequest request;
  request.inputDims = {1, 1, 183, 183};
  request.weightDims = {1, 1, 8, 8};
  return makeConvProblem(request).value();
}

unsigned fuzzSeed() {
  const char* given = std::getenv("WARPCONV_FUZZ_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  MESSAGE("WARPCONV_FUZZ_SEED=" << seed);
  return seed;
}

std::vector<std::string> variantsFor(const cuda::GpuAlgorithm& algorithm, const ConvProblem& problem) {
  std::vector<std::string> variants{""};
  for (const std::string_view variant : algorithm.variants) variants.emplace_back(variant);
  std::erase_if(variants, [&](const std::string& variant) {
    return algorithm.refusal(requestFor(problem, variant)).has_value();
  });
  return variants;
}

std::vector<cuda::GpuAlgorithm> algorithmsUnderTest(bool withHalves) {
  const char* only = std::getenv("WARPCONV_GPU_ALGORITHM");
  std::vector<cuda::GpuAlgorithm> algorithms;
  for (const cuda::GpuAlgorithm& algorithm : cuda::gpuAlgorithms()) {
    // Those that say what format they compute in refuse float32.
    if (!withHalves && algorithm.format != nullptr) continue;
    if (only == nullptr || std::string(only) == algorithm.name) algorithms.push_back(algorithm);
  }
  REQUIRE_FALSE(algorithms.empty());
  return algorithms;
}

}  // namespace warpconv::test
