#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/gpu.h"
#include "support/runs.h"

using namespace warpconv;

namespace {

std::shared_ptr<Gpu> gpu() {
  auto opened = openGpu(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return opened.value();
}

}  // namespace

TEST_CASE("measuring takes promising variants of every algorithm, the fastest first, and keeps nothing") {
  const auto opened = gpu();
  for (const test::NamedProblem& layer : test::namedProblems(1)) {
    INFO(layer.name);
    const int64_t before = cuda::Device::bytesInUse(0);
    const PlanProblem asked{layer.problem, {}, {}};
    const auto measured = opened->measure(asked, nullptr);
    if (!measured.isOk()) FAIL(measured.status().message());
    REQUIRE_FALSE(measured.value().empty());
    CHECK(cuda::Device::bytesInUse(0) == before);
    const std::vector<Candidate> candidates = opened->candidates(asked);
    for (const Measurement& one : measured.value()) {
      INFO(one.algorithm << " '" << one.variant << "'");
      CHECK(one.milliseconds > 0);
      CHECK(one.milliseconds >= measured.value().front().milliseconds);
      CHECK(std::any_of(candidates.begin(), candidates.end(),
                        [&](const Candidate& candidate) { return candidate.algorithm == one.algorithm; }));
    }
    const Measurement& best = measured.value().front();
    MESSAGE(layer.name << ": " << best.algorithm << " '" << best.variant << "' " << best.milliseconds << " ms of "
                       << measured.value().size());
  }
}

TEST_CASE("measuring keeps to the limit of the workspace") {
  PlanProblem asked{test::namedProblems(1).front().problem, {}, {}};
  asked.request.workspaceLimit = 0;
  const auto measured = gpu()->measure(asked, nullptr);
  REQUIRE(measured.isOk());
  for (const Measurement& one : measured.value()) CHECK(one.algorithm != "im2col");
}

TEST_CASE("a cancelled measurement says so") {
  Cancellation cancellation;
  cancellation.request();
  const PlanProblem asked{test::namedProblems(1).front().problem, {}, {}};
  CHECK(gpu()->measure(asked, &cancellation).status().code() == StatusCode::aborted);
}
