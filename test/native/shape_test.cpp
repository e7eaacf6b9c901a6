#include "cuda/planning/shape.h"

#include <doctest/doctest.h>

using namespace warpconv;

namespace {

ConvProblem padded(int64_t channels, int64_t rows, int64_t columns) {
  ConvRequest request;
  request.inputDims = {1, channels, 1, 1};
  request.weightDims = {1, channels, 1, 1};
  request.stride = {kMaxExtent, kMaxExtent};
  request.padding = {.top = rows - 1, .left = columns - 1};
  return makeConvProblem(request).value();
}

}  // namespace

TEST_CASE("kernels take what 31 bits count, padding included") {
  CHECK_FALSE(cuda::refuseLarge(padded(1, 4, cuda::kMostElements / 4)));
  CHECK_FALSE(cuda::refuseLarge(padded(1, 1, cuda::kMostElements)));
  CHECK(cuda::refuseLarge(padded(1, 1, cuda::kMostElements + 1)));
  const auto refusal = cuda::refuseLarge(padded(2, 1 << 15, 1 << 15));
  REQUIRE(refusal);
  CHECK(refusal->ends_with("padding counted; this problem has one of 2147483648"));
}

TEST_CASE("kernels refuse what 64 bits do not count") {
  // 2^64, which 64 bits would take for nothing, and 2^63, which they would take for a negative number.
  CHECK(cuda::refuseLarge(padded(int64_t{1} << 4, int64_t{1} << 30, int64_t{1} << 30)));
  CHECK(cuda::refuseLarge(padded(int64_t{1} << 3, int64_t{1} << 30, int64_t{1} << 30)));
}
