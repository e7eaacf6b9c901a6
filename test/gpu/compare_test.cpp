#include "cuda/compare/compare.h"

#include <doctest/doctest.h>

#include "support/runs.h"

using namespace warpconv;

namespace {

std::shared_ptr<Gpu> gpu() {
  auto opened = openGpu(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return opened.value();
}

PlanProblem requestOf(int64_t paddingBelow) {
  ConvRequest request;
  request.inputDims = {2, 16, 30, 31};
  request.weightDims = {24, 16, 3, 3};
  request.padding = {1, 1, paddingBelow, 1};
  return {makeConvProblem(request).value(), {}, {}};
}

std::vector<float> reals(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> pick(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = pick(random);
  return values;
}

Result<CudnnComparison> compare(int64_t paddingBelow, const std::vector<std::string>& libraries) {
  const PlanProblem request = requestOf(paddingBelow);
  const std::vector<float> input = reals(request.problem.inputSize(), 1);
  const std::vector<float> weight = reals(request.problem.weightSize(), 2);
  return gpu()->compareWithCudnn("direct", request, input.data(), weight.data(), libraries);
}

}  // namespace

TEST_CASE("a comparison with cuDNN judges and times both") {
  const Result<CudnnComparison> compared = compare(1, {"libno-such-cudnn.so", "libcudnn.so.9"});
  if (!compared.isOk()) FAIL(compared.status().message());
  const CudnnComparison& report = compared.value();
  CHECK(report.ours.algorithm == "direct");
  CHECK(report.ours.maxRelativeError > 0);
  CHECK(report.ours.maxRelativeError <= 4e-6);
  CHECK(report.ours.milliseconds > 0);
  // Its FFT and Winograd round more than the rule allows.
  CHECK(report.cudnn.maxRelativeError <= 1e-4);
  CHECK(report.cudnn.milliseconds > 0);
  CHECK(report.cudnn.algorithm != "");
  CHECK(report.cudnnVersion.substr(0, 2) == "9.");
  MESSAGE(report.cudnn.algorithm << " of cuDNN " << report.cudnnVersion << ": " << report.cudnn.milliseconds
                                 << " ms, ours " << report.ours.milliseconds << " ms");
}

TEST_CASE("a comparison says which libraries were tried in vain") {
  const Result<CudnnComparison> compared = compare(1, {"libno-such-cudnn.so"});
  REQUIRE_FALSE(compared.isOk());
  CHECK(compared.status().code() == StatusCode::cudnnNotFound);
  CHECK(compared.status().message().find("libno-such-cudnn.so") != std::string::npos);
}

TEST_CASE("cuDNN cannot say different paddings on opposite sides") {
  const Result<CudnnComparison> compared = compare(2, {"libcudnn.so.9"});
  REQUIRE_FALSE(compared.isOk());
  CHECK(compared.status().code() == StatusCode::unsupported);
}
