#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/tune/promising_variants.h"
#include "support/planned_algorithms.h"

using namespace warpconv;
using namespace warpconv::cuda;

namespace {

/** As of an H100. */
constexpr GpuTraits kTraits{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{50} << 20, 6.7e13, 3.35e12};

const GpuAlgorithm& kPlannedShuffle = test::kPlannedAlgorithms[1];
const GpuAlgorithm& kPlannedIm2win = test::kPlannedAlgorithms[2];

GpuRequest requestOf(int64_t channels, int64_t extent, int64_t filters, int64_t filter) {
  ConvRequest request;
  request.inputDims = {1, channels, extent, extent};
  request.weightDims = {filters, channels, filter, filter};
  return {makeConvProblem(request).value(), {}, "", kTraits};
}

double predicted(const GpuAlgorithm& algorithm, GpuRequest request, const std::string& variant) {
  request.variant = variant;
  return algorithm.estimate(request).milliseconds;
}

}  // namespace

TEST_CASE("worth measuring are the few variants that an algorithm predicts fastest") {
  const GpuRequest request = requestOf(256, 56, 256, 3);
  const std::vector<std::string> variants = promisingVariants(kPlannedIm2win, request);
  REQUIRE(variants.size() == 4);
  const double slowest = predicted(kPlannedIm2win, request, variants.back());
  CHECK(predicted(kPlannedIm2win, request, variants.front()) <= slowest);
  for (const std::string_view other : kIm2winVariants) {
    if (std::find(variants.begin(), variants.end(), other) != variants.end()) continue;
    CHECK(predicted(kPlannedIm2win, request, std::string(other)) >= slowest);
  }
}

TEST_CASE("an algorithm's own choice is measured once") {
  const GpuRequest request = requestOf(256, 56, 256, 3);
  const auto ownOf = [&](const GpuAlgorithm& algorithm) {
    const std::vector<std::string> variants = promisingVariants(algorithm, request);
    return std::count(variants.begin(), variants.end(), "");
  };
  CHECK(ownOf(kPlannedIm2win) == 0);
  constexpr std::string_view kSlow[] = {"explicit"};
  GpuAlgorithm other = kPlannedIm2win;
  other.variants = kSlow;
  CHECK(ownOf(other) == 1);
  other.refusal = [](const GpuRequest& asked) -> std::optional<std::string> {
    if (asked.variant.empty()) return "refused";
    return std::nullopt;
  };
  CHECK(ownOf(other) == 0);
}

TEST_CASE("variants that refuse a problem are not measured") {
  // No depthwise layer, and a filter that `wide` does not take.
  const GpuRequest request = requestOf(3, 40, 8, 4);
  for (const std::string& variant : promisingVariants(kPlannedShuffle, request)) {
    GpuRequest one = request;
    one.variant = variant;
    INFO(variant);
    CHECK_FALSE(refuseShuffle(one).has_value());
  }
}

TEST_CASE("an algorithm without variants has its own choice alone") {
  GpuAlgorithm plain = kPlannedIm2win;
  plain.variants = {};
  CHECK(promisingVariants(plain, requestOf(8, 20, 8, 3)) == std::vector<std::string>{""});
}
