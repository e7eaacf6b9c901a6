#include <doctest/doctest.h>

#include <random>

#include "cuda/im2win/im2win.h"
#include "cuda/im2win/plan.h"
#include "cuda/im2win/window_order.h"

using namespace warpconv;
using namespace warpconv::cuda;

namespace {

/** As of an H100. */
GpuTraits traits(int computeCapability = 90) {
  return {computeCapability, 132, 65536, 228 * 1024, 227 * 1024, int64_t{50} << 20, 6.7e13, 3.35e12};
}

ConvProblem problemOf(const ConvRequest& request) {
  const Result<ConvProblem> made = makeConvProblem(request);
  REQUIRE(made.isOk());
  return made.value();
}

GpuRequest requestOf(const ConvRequest& request, const std::string& variant = "") {
  return {problemOf(request), {}, variant, traits()};
}

/** A layer of a residual network, with many images. */
ConvRequest largeRequest() {
  ConvRequest request;
  request.inputDims = {128, 256, 14, 14};
  request.weightDims = {256, 256, 3, 3};
  return request;
}

/** Two groups, strides, dilations and paddings that all differ. */
ConvRequest oddRequest() {
  ConvRequest request;
  request.inputDims = {2, 6, 11, 13};
  request.weightDims = {4, 3, 3, 4};
  request.stride = {2, 3};
  request.dilation = {3, 2};
  request.padding = {2, 1, 3, 4};
  request.groups = 2;
  return request;
}

/** Reads the problem's definition through an order and a layout; NaN where both say that there is nothing. */
template <typename Visit>
void forEachElement(const ConvProblem& x, Visit&& visit) {
  for (int64_t n = 0; n < x.n; ++n) {
    for (int64_t group = 0; group < x.groups; ++group) {
      for (int64_t p = 0; p < x.p; ++p) {
        for (int64_t q = 0; q < x.q; ++q) {
          int64_t step = 0;
          for (int64_t c = 0; c < x.groupInputs(); ++c) {
            for (int64_t s = 0; s < x.s; ++s) {
              for (int64_t r = 0; r < x.r; ++r, ++step) visit(n, group, p, q, step, c, s, r);
            }
          }
        }
      }
    }
  }
}

int64_t placeOf(const im2win::WindowLayout& at, int64_t n, int64_t group, int64_t p, int64_t q) {
  return at.origin + group * at.groupStride + n * at.imageStride + p * at.rowStride + q * at.columnStride;
}

}  // namespace

TEST_CASE("the window order in the input is that of the definition") {
  const ConvProblem x = problemOf(oddRequest());
  const Shape shape = shapeOf(x);
  const im2win::WindowLayout layout = im2win::inputLayout(shape);
  const std::vector<im2win::WindowStep> order = im2win::inputOrder(shape, 48);
  forEachElement(x, [&](auto n, auto group, auto p, auto q, auto step, auto c, auto s, auto r) {
    const int64_t h = p * 2 + r * 3 - 2;
    const int64_t w = q * 3 + s * 2 - 1;
    CHECK(order[step].bits == (1u << r | 1u << (3 + s)));
    CHECK(placeOf(layout, n, group, p, q) + order[step].offset == ((n * 6 + group * 3 + c) * 11 + h) * 13 + w);
  });
  for (size_t step = 36; step < 48; ++step) CHECK(order[step].bits == im2win::kPastTheEnd);
}

TEST_CASE("a window of the im2win tensor is contiguous but for dilation, columns outside and rows inside") {
  const ConvProblem x = problemOf(oddRequest());
  const int64_t width = 13 + 1 + 4;
  CHECK(im2win::paddedWidth(x) == width);
  CHECK(im2win::tensorElements(x) == 2 * 6 * x.p * 3 * width);
  const Shape shape = shapeOf(x);
  const im2win::WindowLayout layout = im2win::tensorLayout(shape, static_cast<int>(width));
  const std::vector<im2win::WindowStep> order = im2win::tensorOrder(shape, static_cast<int>(width), 48);
  forEachElement(x, [&](auto n, auto group, auto p, auto q, auto step, auto c, auto s, auto r) {
    const int64_t row = (n * 6 + group * 3 + c) * x.p + p;
    CHECK(placeOf(layout, n, group, p, q) + order[step].offset == (row * width + q * 3 + s * 2) * 3 + r);
    CHECK((order[step].bits & im2win::kPastTheEnd) == 0);
    CHECK(order[step].bits != 0);
  });
  for (size_t step = 36; step < 48; ++step) CHECK(order[step].bits == im2win::kPastTheEnd);
}

TEST_CASE("explicit im2win reports its tensor, implicit im2win its splits' sums, where clusters do not sum them") {
  ConvRequest request;
  request.inputDims = {128, 64, 112, 112};
  request.weightDims = {128, 64, 3, 3};
  CHECK(estimateIm2win(requestOf(request, "explicit")).workspaceBytes == int64_t{4} * 128 * 64 * 110 * 3 * 112);
  CHECK(estimateIm2win(requestOf(request, "basic")).workspaceBytes == int64_t{4} * 128 * 64 * 110 * 3 * 112);
  CHECK(estimateIm2win(requestOf(request)).workspaceBytes == 0);

  request.inputDims = {1, 512, 7, 7};
  request.weightDims = {512, 512, 3, 3};
  request.padding = {1, 1, 1, 1};
  GpuRequest one = requestOf(request);
  for (const int computeCapability : {80, 90}) {
    one.traits = traits(computeCapability);
    const im2win::Plan plan = im2win::planIm2win(one);
    CHECK(plan.splits > 4);
    CHECK(plan.clustered == (computeCapability == 90 && plan.splits <= 8));
    CHECK(estimateIm2win(one).workspaceBytes == (plan.clustered ? 0 : int64_t{4} * 512 * 49 * plan.splits));
  }
}

TEST_CASE("a single small image is spread over the multiprocessors, a batch is not split") {
  ConvRequest request;
  request.inputDims = {1, 256, 14, 14};
  request.weightDims = {256, 256, 3, 3};
  request.padding = {1, 1, 1, 1};
  const im2win::Plan one = im2win::planIm2win(requestOf(request));
  const im2win::GemmTile& tile = im2win::kTiles[one.tile].tile;
  // Not by a count of blocks: on an H200, 64 of 128 x 64 outputs take 10.3 us and 224 of 64 x 32 take 12.4.
  CHECK(one.splits >= 8);
  CHECK(im2win::gemmMilliseconds(requestOf(request), tile, 1) > 2 * one.milliseconds);

  request.inputDims[0] = 128;
  const im2win::Plan batch = im2win::planIm2win(requestOf(request));
  CHECK(batch.splits == 1);
  CHECK(im2win::kTiles[batch.tile].tile.onTensorCores());
}

TEST_CASE("tensor cores are chosen where they are faster, and refused where there are none") {
  GpuRequest one = requestOf(largeRequest());
  const auto isChosen = [&](int computeCapability) {
    one.traits = traits(computeCapability);
    return im2win::kTiles[im2win::planIm2win(one).tile].tile.onTensorCores();
  };
  for (const std::string_view variant : {"", "implicit"}) {
    one.variant = variant;
    CHECK(isChosen(80));
    CHECK(isChosen(90));
    // Of GeForce, whose tensor cores multiply TF32 no faster than others multiply float32.
    CHECK_FALSE(isChosen(89));
    CHECK_FALSE(isChosen(75));
    for (const ConsideredKernel& kernel : estimateIm2win(one).considered())
      CHECK(!kernel.name.starts_with("implicit-tf32"));
  }
  int refused = 0;
  for (const std::string_view variant : kIm2winVariants) {
    one.variant = variant;
    const auto refusal = refuseIm2win(one);
    const bool onTensorCores = variant.starts_with("implicit-tf32x3") || variant.starts_with("implicit-wgmma");
    CHECK(refusal.has_value() == onTensorCores);
    refused += refusal.has_value();
    if (refusal) CHECK(refusal->find("this device has 7.5") != std::string::npos);
  }
  CHECK(refused > 0);
}

TEST_CASE("products by warpgroups are for compute capability 9.0, and for no later one either") {
  GpuRequest one = requestOf(largeRequest());
  const auto byWarpgroups = [&](int computeCapability) {
    one.traits = traits(computeCapability);
    return im2win::kTiles[im2win::planIm2win(one).tile].tile.byWarpgroups();
  };
  CHECK(byWarpgroups(90));
  CHECK_FALSE(byWarpgroups(80));
  CHECK_FALSE(byWarpgroups(100));
  for (const int computeCapability : {80, 89, 100}) {
    one.traits = traits(computeCapability);
    one.variant = "implicit-wgmma-128x128";
    const auto refusal = refuseIm2win(one);
    REQUIRE(refusal.has_value());
    CHECK(refusal->find("capability 9.0 alone") != std::string::npos);
    one.variant = "implicit-tf32x3-64x64";
    CHECK_FALSE(refuseIm2win(one).has_value());
    one.variant = "";
  }
}

TEST_CASE("registers of warpgroups that load and of those that have sums are what a block began with, at most") {
  int warpgroupTiles = 0;
  for (const im2win::NamedTile& named : im2win::kTiles) {
    const im2win::GemmTile& tile = named.tile;
    if (!tile.byWarpgroups()) continue;
    ++warpgroupTiles;
    INFO(std::string(named.variant));
    CHECK(tile.threads() % 128 == 0);
    CHECK(tile.allLoaders() >= 128);
    CHECK(tile.loaderRegisters() % 8 == 0);
    CHECK(tile.loaderRegisters() <= tile.launchRegisters());
    CHECK(tile.sumRegisters() >= tile.launchRegisters());
    CHECK(tile.sumRegisters() * tile.threads() + tile.loaderRegisters() * tile.allLoaders() <=
          tile.launchRegisters() * tile.launchThreads());
    CHECK(tile.launchRegisters() * tile.launchThreads() * tile.blocksPerMultiprocessor <= 65536);
    CHECK((4 * tile.sharedFloats() + 2048) * tile.blocksPerMultiprocessor <= traits().sharedBytesPerMultiprocessor);
  }
  CHECK(warpgroupTiles > 0);
}

TEST_CASE("every split has work, and a pinned tile is the variant's") {
  std::mt19937 random(2);
  const auto upTo = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
  for (int round = 0; round < 200; ++round) {
    ConvRequest request;
    const int64_t channels = upTo(300);
    request.inputDims = {upTo(4), channels, 10 + upTo(20), 10 + upTo(20)};
    request.weightDims = {upTo(300), channels, upTo(11), upTo(11)};
    for (const std::string_view variant : kIm2winVariants) {
      const GpuRequest one = requestOf(request, std::string(variant));
      const im2win::Plan plan = im2win::planIm2win(one);
      const im2win::NamedTile& named = im2win::kTiles[plan.tile];
      const int64_t tiles = ceilDivide(one.problem.filterSize(), named.tile.blockK);
      CHECK((plan.splits - 1) * ceilDivide(tiles, plan.splits) < tiles);
      if (variant.starts_with("implicit-")) CHECK(named.variant == variant);
      if (variant.starts_with("explicit")) CHECK(plan.splits == 1);
    }
  }
}

TEST_CASE("filters whose padding has no masks are read from the tensor, and refused without it") {
  ConvRequest request;
  request.inputDims = {1, 3, 40, 40};
  request.weightDims = {8, 3, 16, 16};
  CHECK(im2win::planIm2win(requestOf(request)).source == im2win::Source::tensor);
  const auto refusal = refuseIm2win(requestOf(request, "implicit"));
  REQUIRE(refusal.has_value());
  CHECK(refusal->find("this problem has 32") != std::string::npos);
  request.weightDims = {8, 3, 16, 15};
  CHECK(im2win::planIm2win(requestOf(request)).source == im2win::Source::input);
  CHECK_FALSE(refuseIm2win(requestOf(request, "implicit")).has_value());
}

TEST_CASE("a tensor beyond 32-bit offsets is refused, and implicit im2win takes the problem") {
  ConvRequest request;
  request.inputDims = {128, 64, 224, 224};
  request.weightDims = {64, 64, 15, 15};
  const auto refusal = refuseIm2win(requestOf(request, "explicit"));
  REQUIRE(refusal.has_value());
  CHECK(refusal->find("im2win tensor") != std::string::npos);
  CHECK_FALSE(refuseIm2win(requestOf(request)).has_value());
}

TEST_CASE("an estimate shows the tiles that were considered, of which the fastest was chosen") {
  ConvRequest request;
  request.inputDims = {1, 256, 14, 14};
  request.weightDims = {256, 256, 3, 3};
  const Estimate estimate = estimateIm2win(requestOf(request));
  const std::vector<ConsideredKernel> considered = estimate.considered();
  REQUIRE(considered.size() == im2win::kTileCount - im2win::kFirstPlannedTile);
  int chosen = 0;
  for (const ConsideredKernel& kernel : considered) {
    INFO(kernel.name);
    const Estimate alone = estimateIm2win(requestOf(request, kernel.name));
    CHECK(kernel.tiles == alone.tiles);
    REQUIRE(kernel.figures.size() == 1);
    CHECK(kernel.figures[0] == std::pair<std::string, double>{"milliseconds", alone.milliseconds});
    CHECK(alone.milliseconds >= estimate.milliseconds);
    CHECK_FALSE(alone.considered);
    chosen += kernel.lost.empty();
    if (kernel.lost.empty()) CHECK(kernel.tiles == estimate.tiles);
  }
  CHECK(chosen == 1);
  // Read from the tensor, tiles have no variants of their own.
  request.inputDims = {1, 256, 14, 40};
  request.weightDims = {8, 256, 2, 30};
  CHECK_FALSE(estimateIm2win(requestOf(request)).considered);
}
