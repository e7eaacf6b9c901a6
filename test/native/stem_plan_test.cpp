#include <doctest/doctest.h>

#include <random>
#include <string>

#include "cuda/stem/plan.h"
#include "cuda/stem/stem.h"
#include "support/named_problems.h"

using namespace warpconv;
using namespace warpconv::cuda;

namespace {

/** As of an H100. */
constexpr GpuTraits kTraits{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{50} << 20, 6.69e13, 3.35e12};

GpuRequest requestOf(const ConvProblem& problem, const std::string& variant = "") {
  return {problem, {}, variant, kTraits};
}

ConvProblem problemOf(const ConvRequest& request) { return makeConvProblem(request).value(); }

ConvProblem named(const std::string& name, int64_t batch) {
  for (const test::NamedProblem& one : test::namedProblems(batch)) {
    if (one.name == name) return one.problem;
  }
  FAIL("there is no layer " << name);
  return test::namedProblems(1).front().problem;
}

ConvProblem randomProblem(std::mt19937& random) {
  const auto upTo = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most + 1)); };
  for (;;) {
    ConvRequest request;
    const int64_t channels = 1 + upTo(4);
    request.inputDims = {1 + upTo(2), channels, 1 + upTo(40), 1 + upTo(60)};
    request.weightDims = {1 + upTo(80), channels, 1 + upTo(7), 2 + upTo(9)};
    request.stride = {1 + upTo(3), 1 + upTo(3)};
    request.dilation = {1 + upTo(2), 1 + upTo(2)};
    request.padding = {upTo(4), upTo(4), upTo(4), upTo(4)};
    if (const auto problem = makeConvProblem(request); problem.isOk()) return problem.value();
  }
}

}  // namespace

TEST_CASE("stem's patches: the words of a window are the pairs of elements that it has by the definition") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const ConvProblem x = randomProblem(random);
    const stem::StemTile tile = stem::kTiles[random() % stem::kTileCount].tile;
    const stem::Patch patch = stem::patchOf(x, tile);
    INFO(describe(x));
    for (int64_t row = 0; row < tile.rows; ++row) {
      for (int64_t column = 0; column < stem::kWarpColumns; ++column) {
        // As the kernel finds an output's first word: rows of words, and so many words from an output to the next.
        const int64_t first = row * x.stride.h * patch.words + column * x.stride.w / patch.step;
        REQUIRE(column * x.stride.w % patch.step == 0);
        for (int64_t c = 0; c < x.groupInputs(); ++c) {
          for (int64_t r = 0; r < x.r; ++r) {
            for (int64_t s = 0; s < x.s; ++s) {
              const int64_t word = first + stem::pairOffset(x, patch, c, r, s / 2);
              // Word i of a row has elements i * step and i * step + dilation.
              const int64_t element = word % patch.words * patch.step + s % 2 * x.dilation.w;
              const bool isRight = word < patch.size() &&
                                   word / patch.words == c * patch.rows + row * x.stride.h + r * x.dilation.h &&
                                   element == column * x.stride.w + s * x.dilation.w;
              // Not by REQUIRE, which took most of the time of ten million.
              if (isRight) continue;
              FAIL("output " << row << ", " << column << " has word " << word << " for tap " << c << ", " << r << ", "
                             << s);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("stem's plans: every tile is some block's, and what blocks take is there") {
  std::mt19937 random(6);
  int taken = 0;
  while (taken < 2000) {
    const ConvProblem x = randomProblem(random);
    const std::string variant(kStemVariants[random() % stem::kTileCount]);
    const GpuRequest request = requestOf(x, variant);
    if (refuseStem(request)) continue;
    ++taken;
    INFO(describe(x) << ", " << variant);
    const stem::Plan plan = stem::planStem(request);
    const stem::StemTile& tile = stem::kTiles[plan.tile].tile;
    REQUIRE(stem::kTiles[plan.tile].variant == variant);
    const int64_t tiles = x.n * stem::tilesP(x, tile) * stem::tilesQ(x);
    REQUIRE(plan.columns * plan.tilesEach >= tiles);
    REQUIRE(plan.columns * (plan.tilesEach - 1) < tiles);
    const int64_t bytes = stem::sharedBytes(x, tile, plan.patches());
    REQUIRE(bytes <= stem::mostSharedBytes(kTraits));
    REQUIRE(plan.held >= 1);
    REQUIRE(plan.held * bytes <= kTraits.sharedBytesPerMultiprocessor);
    REQUIRE(2 * 8 * stem::stepsOf(x) >= x.filterSize());
    REQUIRE(plan.milliseconds > 0);
  }
}

TEST_CASE("stem takes filters of few channels, and says why it takes no others") {
  CHECK_FALSE(refuseStem(requestOf(named("res_stem", 1))));
  CHECK_FALSE(refuseStem(requestOf(named("conv1", 128))));
  const auto refusal = [](const GpuRequest& request) { return refuseStem(request).value_or(""); };
  CHECK(refusal(requestOf(named("conv7", 1))).find("sums of at least 64 products") != std::string::npos);
  CHECK(refusal(requestOf(named("res_56", 1))).find("of at most 512 elements") != std::string::npos);
  CHECK(refusal(requestOf(named("pw_14_64_384", 1))).find("one column") != std::string::npos);
  GpuRequest ampere = requestOf(named("res_stem", 1));
  ampere.traits.computeCapability = 80;
  CHECK(refusal(ampere).find("9.0 alone") != std::string::npos);
  ConvRequest sparse;
  sparse.inputDims = {1, 3, 900, 900};
  sparse.weightDims = {64, 3, 7, 7};
  sparse.dilation = {100, 100};
  CHECK(refusal(requestOf(problemOf(sparse))).find("too little") != std::string::npos);
}

TEST_CASE("stem is predicted to take what it was measured to take on an H100, and chooses the fastest tile") {
  struct Measured {
    const char* layer;
    int64_t batch;
    const char* variant;
    double microseconds;
  };
  const Measured measured[] = {
      {"res_stem", 1, "64x64", 5.04},   {"conv3", 1, "64x64", 5.72},      {"conv1", 1, "48x64", 6.52},
      {"conv2", 1, "48x64", 6.24},      {"res_stem", 16, "64x64", 46.9},  {"res_stem", 128, "64x64", 360},
      {"conv1", 128, "64x128", 456.43}, {"conv2", 128, "64x128", 428.03},
  };
  for (const Measured& one : measured) {
    INFO(one.layer << ", batch " << one.batch);
    const stem::Plan plan = stem::planStem(requestOf(named(one.layer, one.batch)));
    CHECK(stem::kTiles[plan.tile].variant == one.variant);
    CHECK(plan.milliseconds * 1e3 == doctest::Approx(one.microseconds).scale(0).epsilon(0.1));
  }
}
