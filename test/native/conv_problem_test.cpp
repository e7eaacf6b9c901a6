#include "problem/conv_problem.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace warpconv;

namespace {

ConvRequest request(std::array<int64_t, 4> input, std::array<int64_t, 4> weight) {
  ConvRequest result;
  result.inputDims = input;
  result.weightDims = weight;
  return result;
}

/** Counts windows by walking over the padded axis: the definition, without a division. */
int64_t countWindows(int64_t extent, int64_t before, int64_t after, int64_t filter, int64_t stride, int64_t dilation) {
  int64_t windows = 0;
  for (int64_t start = -before; start + dilation * (filter - 1) < extent + after; start += stride) ++windows;
  return windows;
}

std::string failureOf(const ConvRequest& bad) {
  const Result<ConvProblem> result = makeConvProblem(bad);
  REQUIRE_FALSE(result.isOk());
  CHECK(result.status().code() == StatusCode::invalidArgument);
  return std::string(result.status().message());
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("output extents equal the number of windows that fit") {
  std::mt19937 random(20260101);
  const auto upTo = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  for (int i = 0; i < 20000; ++i) {
    ConvRequest asked = request({1, 1, 1 + upTo(20), 1 + upTo(20)}, {1, 1, 1 + upTo(6), 1 + upTo(6)});
    asked.stride = {1 + upTo(4), 1 + upTo(4)};
    asked.dilation = {1 + upTo(3), 1 + upTo(3)};
    asked.padding = {upTo(5), upTo(5), upTo(5), upTo(5)};
    const int64_t p = countWindows(asked.inputDims[2], asked.padding.top, asked.padding.bottom, asked.weightDims[2],
                                   asked.stride.h, asked.dilation.h);
    const int64_t q = countWindows(asked.inputDims[3], asked.padding.left, asked.padding.right, asked.weightDims[3],
                                   asked.stride.w, asked.dilation.w);
    const Result<ConvProblem> made = makeConvProblem(asked);
    REQUIRE(made.isOk() == (p > 0 && q > 0));
    if (!made.isOk()) continue;
    REQUIRE(made.value().p == p);
    REQUIRE(made.value().q == q);
  }
}

TEST_CASE("'same' gives ceil(extent / stride), with the odd row below and the odd column to the right") {
  for (int64_t extent = 1; extent <= 12; ++extent) {
    for (int64_t filter = 1; filter <= 6; ++filter) {
      for (int64_t stride = 1; stride <= 4; ++stride) {
        ConvRequest asked = request({1, 1, extent, extent}, {1, 1, filter, filter});
        asked.stride = {stride, stride};
        asked.paddingMode = PaddingMode::same;
        const Result<ConvProblem> made = makeConvProblem(asked);
        REQUIRE(made.isOk());
        const ConvProblem& x = made.value();
        CHECK(x.p == (extent + stride - 1) / stride);
        CHECK(x.padding.bottom - x.padding.top >= 0);
        CHECK(x.padding.bottom - x.padding.top <= 1);
        CHECK(x.padding.right == x.padding.bottom);
      }
    }
  }
}

TEST_CASE("'valid' ignores given padding") {
  ConvRequest asked = request({1, 1, 5, 6}, {1, 1, 3, 3});
  asked.padding = {9, 9, 9, 9};
  asked.paddingMode = PaddingMode::valid;
  const Result<ConvProblem> made = makeConvProblem(asked);
  REQUIRE(made.isOk());
  CHECK(made.value().p == 3);
  CHECK(made.value().q == 4);
  CHECK_FALSE(made.value().hasPadding());
}

TEST_CASE("illegal problems are refused by the name of the argument") {
  CHECK(contains(failureOf(request({1, 0, 5, 5}, {1, 1, 1, 1})), "input.dims[1] is 0"));
  CHECK(contains(failureOf(request({1, 1, 5, 5}, {1, 1, 0, 1})), "weight.dims[2] is 0"));
  CHECK(contains(failureOf(request({1, 4, 5, 5}, {1, 3, 1, 1})), "weight.dims[1] is 3"));
  CHECK(contains(failureOf(request({1, 1, 2, 9}, {1, 1, 3, 3})), "the output would be empty"));
  CHECK(contains(failureOf(request({1, 1, 9, 2}, {1, 1, 3, 3})), "columns"));

  ConvRequest grouped = request({1, 6, 5, 5}, {4, 3, 1, 1});
  grouped.groups = 4;
  CHECK(contains(failureOf(grouped), "options.groups is 4, which does not divide the input's 6 channels"));
  grouped.groups = 3;
  CHECK(contains(failureOf(grouped), "does not divide the 4 filters"));
  grouped.groups = 0;
  CHECK(contains(failureOf(grouped), "options.groups is 0"));

  ConvRequest strided = request({1, 1, 5, 5}, {1, 1, 1, 1});
  strided.stride.w = 0;
  CHECK(contains(failureOf(strided), "options.stride[1] is 0"));
  strided.stride.w = 1;
  strided.dilation.h = -1;
  CHECK(contains(failureOf(strided), "options.dilation[0] is -1"));
  strided.dilation.h = 1;
  strided.padding.right = -2;
  CHECK(contains(failureOf(strided), "options.padding[3] is -2"));
}

TEST_CASE("sizes are refused by name and never wrap") {
  CHECK(contains(failureOf(request({int64_t{1} << 31, 1, 1, 1}, {1, 1, 1, 1})), "input.dims[0]"));
  CHECK(contains(failureOf(request({kMaxExtent, kMaxExtent, kMaxExtent, kMaxExtent}, {1, kMaxExtent, 1, 1})),
                 "input would have more than 2^40 elements"));

  ConvRequest padded = request({1, 1, 1, 1}, {1, 1, 1, 1});
  padded.padding = {kMaxExtent, kMaxExtent, 0, 0};
  CHECK(contains(failureOf(padded), "the output would have 2147483648 rows"));
  padded.padding = {0, kMaxExtent, 0, kMaxExtent};
  CHECK(contains(failureOf(padded), "the output would have 4294967295 columns"));
  padded.padding = {kMaxExtent - 1, kMaxExtent - 1, 0, 0};
  CHECK(contains(failureOf(padded), "the output would have more than 2^40 elements"));
  padded.padding = {kMaxExtent - 1, 0, 0, 0};
  CHECK(makeConvProblem(padded).isOk());

  ConvRequest dilated = request({1, 1, 5, 5}, {1, 1, 1 << 15, 1});
  dilated.dilation.h = kMaxExtent;
  CHECK(contains(failureOf(dilated), "the output would be empty"));
}

TEST_CASE("'same' is refused where its padding would exceed what may be given") {
  const auto same = [](int64_t filterRows, int64_t filterColumns) {
    ConvRequest asked = request({1, 1, 4, 4}, {1, 1, filterRows, filterColumns});
    asked.dilation = {kMaxExtent, kMaxExtent};
    asked.paddingMode = PaddingMode::same;
    return asked;
  };
  CHECK(contains(failureOf(same(5, 1)),
                 "options.padding 'same' would be 4294967294 rows on one side of the input, for a filter of 5 rows at "
                 "dilation 2147483647; it can be at most 2147483647"));
  CHECK(contains(failureOf(same(1, 4)), "would be 3221225471 columns"));
  const Result<ConvProblem> most = makeConvProblem(same(3, 3));
  REQUIRE(most.isOk());
  CHECK(most.value().padding.right == kMaxExtent);
}

TEST_CASE("the value of a failure is its sentence, thrown") {
  const Result<ConvProblem> made = makeConvProblem(request({1, 0, 5, 5}, {1, 1, 1, 1}));
  CHECK_THROWS_WITH_AS(static_cast<void>(made.value()), std::string(made.status().message()).c_str(), FailedStatus);
}

TEST_CASE("more than 2^31 elements are a legal problem") {
  const Result<ConvProblem> made = makeConvProblem(request({3, 64, 4096, 4096}, {64, 64, 1, 1}));
  REQUIRE(made.isOk());
  CHECK(made.value().outputSize() == int64_t{3} * 64 * 4096 * 4096);
}
