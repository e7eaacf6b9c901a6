#include "planner/planner.h"

#include <doctest/doctest.h>

#include <string>

using namespace warpconv;

namespace {

ConvProblem problem() {
  ConvRequest request;
  request.inputDims = {1, 64, 56, 56};
  request.weightDims = {64, 64, 3, 3};
  return makeConvProblem(request).value();
}

CpuInfo cpu() {
  CpuInfo info;
  info.caches = {48 * 1024, 1024 * 1024, 32 * 1024 * 1024};
  return info;
}

Result<Plan> plan(const std::string& algorithm, std::optional<int64_t> workspaceLimit = std::nullopt) {
  return makePlan(problem(), Activation{}, {.algorithm = algorithm, .workspaceLimit = workspaceLimit}, cpu());
}

}  // namespace

TEST_CASE("auto takes the accepting candidate with the lowest predicted time") {
  const Result<Plan> made = plan("auto");
  REQUIRE(made.isOk());
  for (const Candidate& candidate : made.value().candidates) {
    CHECK(made.value().choice().estimate.milliseconds <= candidate.estimate.milliseconds);
  }
  CHECK(std::string(made.value().choice().algorithm->name) == "sconv");
}

TEST_CASE("a pinned algorithm is taken") {
  for (const CpuAlgorithm& algorithm : cpuAlgorithms()) {
    const Result<Plan> made = plan(algorithm.name);
    REQUIRE(made.isOk());
    CHECK(std::string(made.value().choice().algorithm->name) == algorithm.name);
  }
}

TEST_CASE("a workspace limit refuses with a sentence, and auto takes the next") {
  const Result<Plan> made = plan("auto", 0);
  REQUIRE(made.isOk());
  CHECK(made.value().choice().estimate.workspaceBytes == 0);
  CHECK(made.value().candidates[0].refusal.find("options.workspaceLimit is 0") != std::string::npos);
  const Result<Plan> pinned = plan("sconv", 0);
  REQUIRE_FALSE(pinned.isOk());
  CHECK(pinned.status().code() == StatusCode::unsupported);
}

TEST_CASE("names of other devices and names that do not exist are told apart") {
  CHECK(plan("im2win").status().code() == StatusCode::unsupported);
  CHECK(plan("shuffle").status().code() == StatusCode::unsupported);
  CHECK(plan("winograd").status().code() == StatusCode::invalidArgument);
  CHECK(plan("").status().code() == StatusCode::invalidArgument);
}

TEST_CASE("the last algorithm of the list takes every problem without workspace") {
  const CpuAlgorithm& last = cpuAlgorithms().back();
  CHECK_FALSE(last.refusal(problem()).has_value());
  CHECK(last.estimate(problem(), cpu()).workspaceBytes == 0);
}
