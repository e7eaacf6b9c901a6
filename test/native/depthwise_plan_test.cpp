#include <doctest/doctest.h>

#include <random>
#include <string>

#include "cuda/depthwise/gpu_depthwise.h"
#include "cuda/depthwise/plan.h"

using namespace warpconv;
using cuda::depthwise::kTiles;
using cuda::depthwise::Plan;

namespace {

cuda::GpuTraits traits() {
  cuda::GpuTraits traits;
  traits.computeCapability = 90;
  traits.multiprocessors = 132;
  traits.l2Bytes = int64_t{50} << 20;
  traits.flopsPerSecond = 6.69e13;
  traits.bytesPerSecond = 3.35e12;
  return traits;
}

constexpr TensorFormat kHalves{FloatType::float16, Layout::nhwc};

ConvRequest layer(int64_t batch, int64_t channels, int64_t extent, int64_t filter, int64_t stride = 1) {
  ConvRequest request;
  request.inputDims = {batch, channels, extent, extent};
  request.weightDims = {channels, 1, filter, filter};
  request.stride = {stride, stride};
  request.padding = {filter / 2, filter / 2, filter / 2, filter / 2};
  request.groups = channels;
  request.format = {kHalves, kHalves, kHalves};
  return request;
}

cuda::GpuRequest asked(const ConvRequest& request) { return {makeConvProblem(request).value(), {}, "", traits()}; }

Plan plan(const ConvRequest& request) { return cuda::depthwise::planDepthwise(asked(request)); }

/** What the refusal of a request says, or nothing. */
std::string refusal(const ConvRequest& request) {
  return cuda::refuseDepthwise(asked(request)).value_or(std::string());
}

}  // namespace

TEST_CASE("depthwise takes halves in NHWC, one filter a channel, and pixels an even number of elements apart") {
  CHECK(refusal(layer(1, 32, 14, 3)).empty());
  ConvRequest request = layer(1, 32, 14, 3);
  request.format = {};
  CHECK(refusal(request).find("float16 or bfloat16 in NHWC") != std::string::npos);
  request = layer(1, 32, 14, 3);
  request.format.input.layout = Layout::nchw;
  CHECK(refusal(request).find("in NHWC") != std::string::npos);
  request = layer(1, 32, 14, 3);
  request.format.output.type = FloatType::bfloat16;
  CHECK(refusal(request).find("the same type") != std::string::npos);
  request = layer(1, 32, 14, 3);
  request.format.residual = {};
  CHECK(refusal(request).find("the same type") != std::string::npos);
  request = layer(1, 32, 14, 3);
  request.weightDims[0] = 64;
  CHECK(refusal(request).find("64 filters for 32 channels in 32 groups") != std::string::npos);
  request = layer(1, 32, 14, 3);
  request.groups = 16, request.weightDims[1] = 2;
  CHECK(refusal(request).find("in 16 groups") != std::string::npos);
  CHECK(refusal(layer(1, 33, 14, 3)).find("this problem has 33") != std::string::npos);
  request = layer(1, 32, 14, 3);
  request.format.output.pitch = 41;
  CHECK(refusal(request).find("41 apart") != std::string::npos);
  request.format.output.pitch = 40;
  CHECK(refusal(request).empty());
  request.format.residual.pitch = (int64_t{1} << 24) + 2;
  CHECK(refusal(request).find("16777218 apart") != std::string::npos);
  CHECK(refusal(layer(2048, 1024, 64, 3)).find("at most") != std::string::npos);
}

TEST_CASE("depthwise: square filters of 3, 5 and 7 have tiles of their own, and one takes all others") {
  const auto tileOf = [](const ConvRequest& request) { return kTiles[plan(request).tile]; };
  for (const auto& [filter, stride] : {std::pair{3, 1}, {3, 2}, {5, 1}, {5, 2}, {7, 1}}) {
    const auto tile = tileOf(layer(1, 64, 28, filter, stride));
    CHECK(tile.filter == filter);
    CHECK(tile.stride == stride);
    CHECK(tile.ahead % tile.stride == 0);
  }
  ConvRequest other = layer(1, 64, 28, 3);
  other.dilation = {1, 2};
  CHECK(tileOf(other).filter == 0);
  other = layer(1, 64, 28, 3);
  other.stride = {1, 2};
  CHECK(tileOf(other).filter == 0);
  other = layer(1, 64, 28, 3);
  other.weightDims[3] = 5;
  CHECK(tileOf(other).filter == 0);
  CHECK(tileOf(layer(1, 64, 28, 7, 2)).filter == 0);
  CHECK(tileOf(layer(1, 64, 28, 9)).filter == 0);
  CHECK(plan(layer(8, 64, 28, 9)).run == 1);
}

TEST_CASE("depthwise: strips, slices, runs and blocks cover every output, and none is empty") {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const int64_t channels = 2 * (1 + random() % 600), extent = 1 + random() % 120, stride = 1 + random() % 2;
    const ConvRequest request = layer(1 + random() % 64, channels, extent, 3 + 2 * (random() % 4), stride);
    const ConvProblem x = makeConvProblem(request).value();
    INFO(describe(x));
    const Plan made = plan(request);
    const int columns = kTiles[made.tile].columns;
    CHECK(made.strips * columns >= x.q);
    CHECK((made.strips - 1) * columns < x.q);
    CHECK(made.runs * made.run >= x.p);
    CHECK((made.runs - 1) * made.run < x.p);
    CHECK(made.slices * made.lanes * 2 >= x.c);
    CHECK((made.slices - 1) * made.lanes * 2 < x.c);
    const int64_t threads = x.n * made.runs * made.slices * made.strips * made.lanes;
    CHECK(made.blocks * cuda::depthwise::kThreads >= threads);
    CHECK((made.blocks - 1) * cuda::depthwise::kThreads < threads);
  }
}

TEST_CASE("depthwise: slices leave few threads without channels") {
  for (const int64_t channels : {24, 32, 58, 96, 116, 144, 192, 232, 240, 384, 464, 480, 576, 672, 768, 960, 1152}) {
    const Plan made = plan(layer(1, channels, 14, 3));
    INFO(channels);
    CHECK(made.lanes * made.slices * 2 <= channels + channels / 24);
    // Slices of several begin with a sector of 32 bytes.
    CHECK((made.slices == 1 || made.lanes % 8 == 0));
  }
}

TEST_CASE("depthwise: short runs where there are few outputs, long ones where there are many") {
  CHECK(plan(layer(1, 960, 7, 3)).run == 1);
  CHECK(plan(layer(1, 384, 14, 7)).run == 1);
  CHECK(plan(layer(1, 144, 56, 3)).run <= 4);
  CHECK(plan(layer(128, 144, 56, 3)).run >= 7);
  CHECK(plan(layer(128, 96, 56, 7)).run >= 14);
  CHECK(plan(layer(128, 240, 28, 5)).run >= 7);
}

TEST_CASE("depthwise: filters in order are shared by batches and types, and not by other filters") {
  const auto formOf = [](const ConvRequest& request) {
    return cuda::formsDepthwise(asked(request), Weights(nullptr, 1, 1)).front();
  };
  ConvRequest request = layer(1, 32, 14, 3);
  const cuda::FilterForm form = formOf(request);
  CHECK(form.bytes == 4 * 32 * 9);
  for (TensorFormat* format : {&request.format.input, &request.format.residual, &request.format.output}) {
    format->type = FloatType::bfloat16;
  }
  request.inputDims = {64, 32, 28, 28};
  CHECK(formOf(request).parameters == form.parameters);
  CHECK(formOf(layer(1, 32, 14, 5)).parameters != form.parameters);
  CHECK(cuda::givenForm(asked(request).problem).parameters != form.parameters);
}
