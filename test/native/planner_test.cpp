#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cpu_algorithm_list.h"
#include "planner/choose.h"
#include "support/reference.h"

using namespace warpconv;

namespace {

/** At a stride of 3 sconv packs windows, which takes a workspace. */
ConvProblem problem() {
  ConvRequest request;
  request.inputDims = {1, 64, 56, 56};
  request.weightDims = {64, 64, 3, 3};
  request.stride = {3, 3};
  request.padding = {1, 1, 1, 1};
  return makeConvProblem(request).value();
}

CpuInfo cpu() {
  CpuInfo info;
  info.caches = {48 * 1024, 1024 * 1024, 32 * 1024 * 1024};
  return info;
}

/** What the CPU answers, and which of it is chosen. */
struct Decision {
  std::vector<Candidate> candidates;
  size_t chosen;

  const Candidate& choice() const { return candidates[chosen]; }
};

Result<Decision> decide(const ConvProblem& asked, const PlanRequest& request) {
  std::vector<Candidate> candidates = listCandidates(asked, request, cpu());
  const Result<size_t> chosen = choose(candidates, request, "cpu");
  if (!chosen.isOk()) return chosen.status();
  return Decision{std::move(candidates), chosen.value()};
}

Result<Decision> plan(const std::string& algorithm, std::optional<int64_t> workspaceLimit = std::nullopt) {
  return decide(problem(), {.algorithm = algorithm, .workspaceLimit = workspaceLimit});
}

}  // namespace

TEST_CASE("auto takes the accepting candidate with the lowest predicted time") {
  const Result<Decision> made = plan("auto");
  REQUIRE(made.isOk());
  for (const Candidate& candidate : made.value().candidates) {
    if (!candidate.accepts()) continue;
    CHECK(made.value().choice().estimate.milliseconds <= candidate.estimate.milliseconds);
  }
  CHECK(made.value().choice().algorithm == "sconv");
}

TEST_CASE("auto takes winograd where its transforms pay") {
  const auto choiceOf = [](std::array<int64_t, 4> input, std::array<int64_t, 4> weight, int64_t stride = 1) {
    ConvRequest request;
    request.inputDims = input;
    request.weightDims = weight;
    request.stride = {stride, stride};
    request.padding = {1, 1, 1, 1};
    return decide(makeConvProblem(request).value(), {}).value().choice().algorithm;
  };
  CHECK(choiceOf({1, 64, 224, 224}, {64, 64, 3, 3}) == "winograd");
  CHECK(choiceOf({1, 64, 56, 56}, {64, 64, 3, 3}) == "winograd");
  CHECK(choiceOf({1, 512, 7, 7}, {512, 512, 3, 3}) == "winograd");
  // Few channels, and few outputs for many weights, half of each tile cut off, another stride.
  CHECK(choiceOf({1, 3, 224, 224}, {64, 3, 3, 3}) == "stem");
  CHECK(choiceOf({1, 512, 2, 2}, {512, 512, 3, 3}) == "sconv");
  CHECK(choiceOf({1, 256, 1, 56}, {256, 256, 3, 3}) == "sconv");
  CHECK(choiceOf({1, 64, 56, 56}, {64, 64, 3, 3}, 2) == "sconv");
}

TEST_CASE("auto leaves im2col to those who ask for it") {
  std::mt19937 random(17);
  for (int i = 0; i < 500; ++i) {
    const ConvProblem any = makeConvProblem(test::randomRequest(random, 1e9)).value();
    INFO(describe(any));
    CHECK(decide(any, {}).value().choice().algorithm != "im2col");
  }
}

TEST_CASE("a pinned algorithm is taken") {
  for (const CpuAlgorithm& algorithm : cpuAlgorithms()) {
    if (algorithm.refusal(problem(), {})) continue;
    const Result<Decision> made = plan(algorithm.name);
    REQUIRE(made.isOk());
    CHECK(made.value().choice().algorithm == algorithm.name);
  }
}

TEST_CASE("a workspace limit refuses with a sentence, and auto takes the next") {
  const Result<Decision> made = plan("auto", 0);
  REQUIRE(made.isOk());
  CHECK(made.value().choice().estimate.workspaceBytes == 0);
  for (const Candidate& candidate : made.value().candidates) {
    if (candidate.algorithm != "sconv") continue;
    CHECK(candidate.refusal.find("options.workspaceLimit is 0") != std::string::npos);
  }
  ConvRequest suitsWinograd;
  suitsWinograd.inputDims = {1, 64, 56, 56};
  suitsWinograd.weightDims = {64, 64, 3, 3};
  const auto chosen = [&](int64_t limit) {
    return decide(makeConvProblem(suitsWinograd).value(), {.workspaceLimit = limit}).value().choice().algorithm;
  };
  CHECK(chosen(1 << 22) == "winograd");
  CHECK(chosen(1 << 16) == "sconv");
  const Result<Decision> pinned = plan("sconv", 0);
  REQUIRE_FALSE(pinned.isOk());
  CHECK(pinned.status().code() == StatusCode::unsupported);
}

TEST_CASE("switches of sconv need sconv, and a presentation that the problem can have") {
  const auto planWith = [](const std::string& algorithm, const sconv::Switches& switches) {
    return decide(problem(), {.algorithm = algorithm, .switches = switches});
  };
  for (const char* other : {"auto", "direct", "im2col"}) {
    const Result<Decision> made = planWith(other, {.vectorPacking = false});
    REQUIRE_FALSE(made.isOk());
    CHECK(made.status().code() == StatusCode::invalidArgument);
    CHECK(made.status().message().find("options.sconv is for") != std::string::npos);
    CHECK(planWith(other, {}).isOk());
  }
  const Result<Decision> refused = planWith("sconv", {.presentation = sconv::Presentation::asTheyLie});
  REQUIRE_FALSE(refused.isOk());
  CHECK(refused.status().code() == StatusCode::unsupported);
  CHECK(refused.status().message().find("stride along a row is at most 2") != std::string::npos);
  CHECK(planWith("sconv", {.presentation = sconv::Presentation::packed}).isOk());
}

TEST_CASE("a pinned algorithm that refuses is unsupported, with its sentence") {
  const Result<Decision> made = plan("depthwise");
  REQUIRE_FALSE(made.isOk());
  CHECK(made.status().code() == StatusCode::unsupported);
  CHECK(made.status().message().find("64") != std::string::npos);
}

TEST_CASE("the instruction sets are capped by name, and never widened") {
  CpuInfo machine = cpu();
  // Those of this architecture from narrow to wide, as the processor might have them.
#if defined(__aarch64__)
  const std::vector<std::pair<const char*, Isa>> sets{{"portable", Isa::portable}, {"neon", Isa::neon}};
  const char* const foreign = "avx2";
#else
  const std::vector<std::pair<const char*, Isa>> sets{
      {"portable", Isa::portable}, {"avx2", Isa::avx2}, {"avx512", Isa::avx512}};
  const char* const foreign = "neon";
#endif
  for (const auto& [machineName, has] : sets) {
    machine.isaLevel = has;
    CHECK(isaName(has) == machineName);
    CHECK(capIsa(machine, nullptr).value().isaLevel == has);
    CHECK(capIsa(machine, "").value().isaLevel == has);
    for (const auto& [name, isa] : sets) CHECK(capIsa(machine, name).value().isaLevel == std::min(has, isa));
  }
  for (const char* refused : {"avx-512", foreign}) {
    const Result<CpuInfo> capped = capIsa(machine, refused);
    REQUIRE_FALSE(capped.isOk());
    CHECK(capped.status().code() == StatusCode::invalidArgument);
    const std::string_view message = capped.status().message();
    CHECK(message.find("WARPCONV_ISA is '" + std::string(refused) + "'") != std::string::npos);
    for (const auto& [name, isa] : sets) CHECK(message.find("'" + std::string(name) + "'") != std::string::npos);
  }
}

TEST_CASE("a window that is spread far over padding asks for no more workspace than its elements") {
  ConvRequest request;
  request.inputDims = {1, 4, 1, 20};
  request.weightDims = {4, 4, 2, 1};
  request.dilation = {1'000'000'000, 1};
  request.padding = {1'000'000'000, 0, 0, 0};
  const ConvProblem sparse = makeConvProblem(request).value();
  for (const Candidate& candidate : listCandidates(sparse, {}, cpu())) {
    CHECK(candidate.estimate.workspaceBytes < 1 << 20);
  }
}

TEST_CASE("names of other devices and names that do not exist are told apart") {
  CHECK(plan("im2win").status().code() == StatusCode::unsupported);
  CHECK(plan("shuffle").status().code() == StatusCode::unsupported);
  CHECK(plan("fft").status().code() == StatusCode::invalidArgument);
  CHECK(plan("").status().code() == StatusCode::invalidArgument);
}

TEST_CASE("the last algorithm of the list takes every problem without workspace") {
  const CpuAlgorithm& last = cpuAlgorithms().back();
  CHECK_FALSE(last.refusal(problem(), {}).has_value());
  CHECK(last.estimate(problem(), cpu(), {}).workspaceBytes == 0);
}
