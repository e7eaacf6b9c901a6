#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "gpu/gpu.h"
#include "support/runs.h"

using namespace warpconv;

namespace {

std::shared_ptr<Gpu> gpu() {
  auto opened = openGpu(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return opened.value();
}

struct Shape {
  int64_t n = 2, c = 16, k = 24, extent = 30, filter = 3, stride = 1, groups = 1;
  int64_t paddingAbove = 1, paddingBelow = 1;
};

ConvProblem problemOf(const Shape& x) {
  ConvRequest request;
  request.inputDims = {x.n, x.c, x.extent, x.extent + 1};
  request.weightDims = {x.k, x.c / x.groups, x.filter, x.filter};
  request.stride = {x.stride, x.stride};
  request.padding = {x.paddingAbove, x.paddingAbove, x.paddingBelow, x.paddingBelow};
  request.groups = x.groups;
  return makeConvProblem(request).value();
}

/** A library's file, where it is not among those that the loader knows. */
std::string named(const char* variable) {
  const char* file = std::getenv(variable);
  return file == nullptr ? "libno-such.so" : file;
}

Contest contestOf(std::vector<ContestEntry> entries) {
  Contest contest;
  contest.entries = std::move(entries);
  contest.cudnnLibraries = {"libno-such-cudnn.so", named("WARPCONV_CUDNN"), "libcudnn.so.9"};
  contest.cublasLibraries = {"libno-such-cublas.so", named("WARPCONV_CUBLAS"), "libcublas.so.13", "libcublas.so.12"};
  contest.pace = {3, 2};
  return contest;
}

ContestReport hold(const Contest& contest, const ConvProblem& problem, Precision precision = Precision::fp32) {
  PlanRequest request;
  request.precision = precision;
  const Result<ContestReport> held = gpu()->holdContest(contest, {problem, {}, request});
  if (!held.isOk()) FAIL(held.status().message());
  return held.value();
}

std::vector<ContestResult> resultsOf(const ContestReport& report, size_t entry) {
  std::vector<ContestResult> results = report.results;
  std::erase_if(results, [&](const ContestResult& one) { return one.entry != entry; });
  return results;
}

bool isOrdered(const Spread& spread) {
  return spread.lowerQuartile > 0 && spread.lowerQuartile <= spread.median && spread.median <= spread.upperQuartile;
}

void checkMeasured(const ContestResult& result, double tolerance) {
  INFO(result.algorithm << " " << result.status.message());
  REQUIRE(result.status.isOk());
  CHECK(result.maxRelativeError > 0);
  CHECK(result.maxRelativeError <= tolerance);
  CHECK(isOrdered(result.timing.warm));
  REQUIRE(result.timing.cold);
  CHECK(isOrdered(*result.timing.cold));
  CHECK(result.timing.calls >= 1);
  MESSAGE(result.algorithm << ": " << result.timing.warm.median << " ms, cold " << result.timing.cold->median
                           << " ms, relative error " << result.maxRelativeError);
}

// cuDNN's FFT and Winograd round more than our rule for float32 allows.
constexpr double kRivalTolerance = 1e-4;

constexpr Layout kLayouts[] = {Layout::nchw, Layout::nhwc};

/**
 * A precision, the type of its tensors, and what its roundings may do: of inputs, weights and an output of 16 bits.
 * cuDNN's Winograd rounds more.
 */
struct Rounding {
  Precision precision;
  FloatType type;
  double tolerance, rivalTolerance;
};
constexpr Rounding kRoundings[] = {{Precision::tf32, FloatType::float32, 2e-3, 5e-3},
                                   {Precision::fp16, FloatType::float16, 3.0 / (1 << 11), 5e-3},
                                   {Precision::bf16, FloatType::bfloat16, 3.0 / (1 << 8), 4e-2}};

ConvProblem inFormat(ConvProblem problem, FloatType type, Layout layout) {
  const TensorFormat format{type, layout, 0};
  problem.format = {format, format, format};
  return problem;
}

}  // namespace

TEST_CASE("a contest judges and times what it is given, in every layout and arithmetic") {
  std::vector<CudnnEntry> rivals;
  for (const Precision arithmetic : {Precision::fp32, Precision::tf32, Precision::fp16}) {
    for (const Layout layout : kLayouts) rivals.push_back({{layout, arithmetic}});
  }
  Contest contest = contestOf({OwnEntry{"direct", ""}, OwnEntry{"im2win", "explicit"}, CublasEntry{}});
  contest.entries.insert(contest.entries.end(), rivals.begin(), rivals.end());
  const ContestReport report = hold(contest, problemOf({}));
  for (size_t own = 0; own < 2; ++own) {
    REQUIRE(resultsOf(report, own).size() == 1);
    checkMeasured(resultsOf(report, own)[0], 4e-6);
  }
  CHECK(resultsOf(report, 1)[0].workspaceBytes > 0);
  REQUIRE(!resultsOf(report, 2).empty());
  for (const ContestResult& product : resultsOf(report, 2)) {
    checkMeasured(product, kRivalTolerance);
    CHECK(product.proposed >= static_cast<int>(resultsOf(report, 2).size()));
  }
  for (size_t rival = 0; rival < rivals.size(); ++rival) {
    const std::vector<ContestResult> results = resultsOf(report, 3 + rival);
    const bool strict = rivals[rival].form.arithmetic == Precision::fp32;
    const double tolerance = strict ? kRivalTolerance : 5e-3;
    REQUIRE(!results.empty());
    for (const ContestResult& result : results) {
      // What is only for information may be missing from a version of the library.
      if (!strict && result.status.code() == StatusCode::unsupported) continue;
      checkMeasured(result, tolerance);
      CHECK(result.algorithm != "");
    }
  }
  CHECK(report.cudnnVersion.substr(0, 2) == "9.");
  CHECK(report.cublasVersion != "");
}

TEST_CASE("im2col with cuBLAS is right with groups, strides, and filters of one element") {
  const Shape shapes[] = {{},
                          {.groups = 4},
                          {.stride = 2, .groups = 8},
                          {.filter = 1, .paddingAbove = 0, .paddingBelow = 0},
                          {.n = 1},
                          {.filter = 1},
                          {.filter = 5, .stride = 3, .paddingAbove = 2}};
  for (const Shape& shape : shapes) {
    const ConvProblem problem = problemOf(shape);
    INFO(describe(problem));
    const ContestReport report = hold(contestOf({CublasEntry{}}), problem);
    REQUIRE(!report.results.empty());
    const bool isMatrix = shape.filter == 1 && shape.paddingAbove == 0;
    for (const ContestResult& result : report.results) {
      checkMeasured(result, kRivalTolerance);
      CHECK((result.workspaceBytes == 0) == isMatrix);
    }
  }
}

TEST_CASE("a contest in another precision judges ours and all rivals, in both layouts") {
  for (const Rounding& rounding : kRoundings) {
    for (const Layout layout : kLayouts) {
      const ConvProblem problem = inFormat(problemOf({}), rounding.type, layout);
      INFO(describe(problem));
      Contest contest = contestOf({OwnEntry{"direct", ""}});
      for (const Layout theirs : kLayouts) contest.entries.push_back(CudnnEntry{{theirs, rounding.precision}});
      const ContestReport report = hold(contest, problem, rounding.precision);
      REQUIRE(resultsOf(report, 0).size() == 1);
      checkMeasured(resultsOf(report, 0)[0], rounding.tolerance);
      for (size_t entry = 1; entry < contest.entries.size(); ++entry) {
        const std::vector<ContestResult> results = resultsOf(report, entry);
        // More than the first few: it is what ours is compared with.
        CHECK(results.size() > 1);
        for (const ContestResult& result : results) checkMeasured(result, rounding.rivalTolerance);
      }
    }
  }
}

TEST_CASE("products of cuBLASLt are right in each precision and layout, with groups and several images") {
  const Shape shapes[] = {{.filter = 1, .paddingAbove = 0, .paddingBelow = 0},
                          {.n = 1, .filter = 1, .paddingAbove = 0, .paddingBelow = 0},
                          {.c = 24, .k = 40, .filter = 1, .groups = 4, .paddingAbove = 0, .paddingBelow = 0},
                          {.n = 3, .c = 7, .k = 9, .extent = 5, .filter = 1, .paddingAbove = 0, .paddingBelow = 0}};
  for (const Shape& shape : shapes) {
    const ConvProblem plain = problemOf(shape);
    INFO(describe(plain));
    for (const Rounding& rounding : kRoundings) {
      const ConvProblem problem = inFormat(plain, rounding.type, Layout::nhwc);
      Contest contest = contestOf({});
      for (const Layout layout : kLayouts) contest.entries.push_back(CublasEntry{{layout, rounding.precision}});
      const ContestReport report = hold(contest, problem, rounding.precision);
      for (const ContestResult& result : report.results) {
        // Of odd extents the library has nothing to propose that begins where elements of 16 bits do.
        if (shape.c == 7 && result.status.code() == StatusCode::unsupported) continue;
        checkMeasured(result, rounding.tolerance);
        CHECK(result.algorithm == "product, Lt");
        CHECK(result.workspaceBytes == 0);
      }
    }
    const ContestReport report = hold(contestOf({CublasEntry{{Layout::nhwc, Precision::fp32}}}), plain);
    for (const ContestResult& result : report.results) checkMeasured(result, kRivalTolerance);
  }
}

TEST_CASE("im2col of halves, or in NHWC, is no rival") {
  const ConvProblem problem = problemOf({});
  for (const RivalForm& form : {RivalForm{Layout::nchw, Precision::fp16}, RivalForm{Layout::nhwc, Precision::tf32}}) {
    const ContestReport report = hold(contestOf({CublasEntry{form}}), problem);
    REQUIRE(report.results.size() == 1);
    CHECK(report.results[0].status.code() == StatusCode::unsupported);
  }
}

TEST_CASE("a contest takes tensors of the caller's") {
  const ConvProblem problem = problemOf({});
  const std::vector<float> input(static_cast<size_t>(problem.inputSize()), 1.0f);
  const std::vector<float> weight(static_cast<size_t>(problem.weightSize()), 0.5f);
  Contest contest = contestOf({OwnEntry{"direct", ""}, CublasEntry{}});
  contest.input = input.data();
  contest.weight = weight.data();
  for (const ContestResult& result : hold(contest, problem).results) {
    REQUIRE(result.status.isOk());
    // Exact for halves of integers, and never for the random numbers that would be in their place.
    CHECK(result.maxError == 0);
    CHECK(result.maxRelativeError == 0);
  }
}

TEST_CASE("an entry that cannot take part says why, and the others are measured") {
  Contest contest = contestOf(
      {OwnEntry{"pointwise", ""}, OwnEntry{"no-such", ""}, CudnnEntry{}, CublasEntry{}, OwnEntry{"direct", ""}});
  contest.cudnnLibraries = {"libno-such-cudnn.so"};
  contest.cublasLibraries = {"libno-such-cublas.so"};
  const ContestReport report = hold(contest, problemOf({}));
  REQUIRE(report.results.size() == 5);
  const StatusCode codes[] = {StatusCode::unsupported, StatusCode::invalidArgument, StatusCode::cudnnNotFound,
                              StatusCode::unsupported};
  for (size_t i = 0; i < std::size(codes); ++i) CHECK(report.results[i].status.code() == codes[i]);
  CHECK(report.results[2].status.message().find("libno-such-cudnn.so") != std::string::npos);
  CHECK(report.results[3].status.message().find("libno-such-cublas.so") != std::string::npos);
  checkMeasured(report.results[4], 4e-6);
  CHECK(report.cudnnVersion == "");
  CHECK(report.cublasVersion == "");
}

TEST_CASE("cuDNN's older search cannot say different paddings on opposite sides, its graph can") {
  const ContestReport report = hold(contestOf({CudnnEntry{}}), problemOf({.paddingBelow = 2}));
  for (const ContestResult& result : report.results) {
    if (!result.status.isOk()) {
      CHECK(result.status.code() == StatusCode::unsupported);
    } else {
      CHECK(result.algorithm.starts_with("ENGINE_"));
    }
  }
}

TEST_CASE("the ceilings are those of the device, within reason") {
  const Result<Ceilings> measured = gpu()->ceilings();
  if (!measured.isOk()) FAIL(measured.status().message());
  const cuda::GpuTraits& traits = test::device().traits();
  CHECK(measured.value().flopsPerSecond > 0.5 * traits.flopsPerSecond);
  CHECK(measured.value().flopsPerSecond < 1.2 * traits.flopsPerSecond);
  CHECK(measured.value().bytesPerSecond > 0.4 * traits.bytesPerSecond);
  CHECK(measured.value().bytesPerSecond < 1.1 * traits.bytesPerSecond);
  CHECK(measured.value().eventMilliseconds > 0);
}

TEST_CASE("variants are known by their algorithm") {
  const std::vector<std::string> variants = gpu()->variants("shuffle");
  CHECK(std::find(variants.begin(), variants.end(), "both") != variants.end());
  CHECK(gpu()->variants("no-such").empty());
}
