#include <doctest/doctest.h>

#include <random>
#include <string>

#include "cuda/image/image.h"
#include "cuda/image/plan.h"

using namespace warpconv;
using namespace warpconv::cuda;

namespace {

/** As of an H200. */
constexpr GpuTraits kTraits{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{50} << 20, 6.69e13, 4.9e12};

constexpr TensorFormat kHalf{FloatType::float16, Layout::nhwc, 0};

ConvRequest layer(int64_t n, int64_t channels, int64_t extent, int64_t filters, int64_t window, int64_t stride) {
  ConvRequest asked;
  asked.inputDims = {n, channels, extent, extent};
  asked.weightDims = {filters, channels, window, window};
  asked.stride = {stride, stride};
  asked.padding = {window / 2, window / 2, window / 2, window / 2};
  asked.format = {{}, kHalf, kHalf};
  return asked;
}

GpuRequest requestOf(const ConvRequest& asked, Precision precision = Precision::fp16) {
  return {makeConvProblem(asked).value(), {}, "", kTraits, precision};
}

std::string refusal(const GpuRequest& request) { return refuseImage(request).value_or(""); }

std::string refusal(const ConvRequest& asked) { return refusal(requestOf(asked)); }

}  // namespace

TEST_CASE("image takes few channels of float32 in NCHW to halves in NHWC") {
  CHECK(refusal(layer(1, 3, 224, 64, 7, 2)).empty());
  ConvRequest other = layer(1, 3, 224, 64, 7, 2);
  other.format.input = kHalf;
  CHECK(refusal(other).find("input of float32 in NCHW") != std::string::npos);
  other = layer(1, 3, 224, 64, 7, 2);
  other.format.output = {};
  CHECK(refusal(other).find("writes float16 or bfloat16") != std::string::npos);
  other = layer(1, 3, 224, 64, 7, 2);
  other.format.residual.type = FloatType::bfloat16;
  CHECK(refusal(other).find("of the same type") != std::string::npos);
  other = layer(1, 3, 224, 60, 7, 2);
  CHECK(refusal(other).find("multiple of 8 elements apart") != std::string::npos);
  other.format.output.pitch = other.format.residual.pitch = 64;
  CHECK(refusal(other).empty());
  CHECK(refusal(layer(1, 8, 224, 64, 3, 2)).find("at most 7") != std::string::npos);
  other = layer(1, 3, 224, 64, 7, 2);
  other.dilation = {1, 2};
  CHECK(refusal(other).find("dilation 1") != std::string::npos);
  other.dilation = {2, 1};
  CHECK(refusal(other).empty());
  other = layer(1, 4, 224, 64, 3, 2);
  other.groups = 2, other.weightDims[1] = 2;
  CHECK(refusal(other).find("one group") != std::string::npos);
  CHECK(refusal(layer(1, 7, 224, 512, 11, 2)).find("48 KiB; this problem's take") != std::string::npos);
  // Of any extents: nothing overflows.
  for (int shift = 10; shift < 31; ++shift) {
    const int64_t far = int64_t{1} << shift;
    other = layer(1, 3, 8, 8, 2, 1);
    other.padding = {far, far, far, far}, other.stride = {far, far - 1}, other.dilation = {far, 1};
    CHECK_FALSE(refusal(other).empty());
  }
}

TEST_CASE("image multiplies halves only where they are allowed, and on tensor cores that have them") {
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    CHECK(refusal(requestOf(layer(1, 3, 224, 64, 7, 2), precision)).find("'fp16' or 'bf16'") != std::string::npos);
  }
  GpuRequest older = requestOf(layer(1, 3, 224, 64, 7, 2));
  older.traits.computeCapability = 75;
  CHECK_FALSE(refusal(older).empty());
}

TEST_CASE("image computes any format from float32 in NCHW, to halves of what the precision allows") {
  ConvRequest asked = layer(1, 3, 224, 64, 7, 2);
  asked.format = {kHalf, kHalf, kHalf};
  const ConvFormat format = formatImage(requestOf(asked));
  CHECK(format.input == TensorFormat{});
  CHECK(format.output == kHalf);
  asked.format = {};
  CHECK(formatImage(requestOf(asked)).output.type == FloatType::float32);
}

TEST_CASE("image: patches hold the windows of a tile, and shared memory all that a block keeps") {
  std::mt19937 random(49);
  for (int round = 0; round < 500; ++round) {
    const int64_t window = 1 + random() % 9, stride = 1 + random() % 4;
    const ConvRequest asked =
        layer(1 + random() % 3, 1 + random() % 7, 20 + random() % 50, 8 * (1 + random() % 16), window, stride);
    const GpuRequest request = requestOf(asked);
    if (refuseImage(request)) continue;
    INFO(describe(request.problem));
    const image::Arguments x = image::argumentsOf(request.problem);
    CHECK(x.patchRows == (image::kRows - 1) * stride + window);
    CHECK(2 * x.patchPairs >= (image::kColumns - 1) * stride + window);
    CHECK(x.patchPitch >= x.patchPairs);
    CHECK(x.windowPairs * 2 >= window);
    CHECK(x.steps * image::kStep >= x.c * window * x.windowPairs * 2);
    CHECK(x.filterPitch % 16 == 8);
    const int64_t copies = stride % 2 == 0 ? 1 : 2;
    CHECK(image::sharedBytes(request.problem) == int64_t{x.filterRows} * (x.filterPitch * 2 + 4) +
                                                     x.steps * 4 * int64_t{sizeof(image::WindowPairs)} +
                                                     copies * x.patchWords * 4);
    const image::Plan plan = image::planImage(request);
    CHECK(x.filterRows % image::kTiles[plan.tile] == 0);
    CHECK(plan.blocks >= 1);
    CHECK(plan.blocks <= x.tiles);
  }
}

TEST_CASE("image: rows of filters have the channels of 32, each once, and a thread's are adjacent") {
  for (int thread = 0; thread < 4; ++thread) {
    for (int i = 0; i < 8; ++i) CHECK(image::channelOf(32 + i / 2 * 8 + 2 * thread + i % 2) == 32 + 8 * thread + i);
  }
}
