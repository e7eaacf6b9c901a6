#include <doctest/doctest.h>

#include "cuda/formats/conversions.h"
#include "cuda/tune/promising_variants.h"

// What an algorithm answers to tensors that it does not compute in: the conversions need nvcc, their plan does not.

using namespace warpconv;

namespace {

constexpr cuda::GpuTraits kH200{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{60} << 20, 66.9e12, 4.9e12};
constexpr TensorFormat kHalfPixels{FloatType::float16, Layout::nhwc, 0};
constexpr TensorFormat kPaddedPixels{FloatType::float16, Layout::nhwc, 8};

ConvProblem problemIn(const ConvFormat& format) {
  ConvRequest request;
  request.inputDims = {2, 3, 10, 10};
  request.weightDims = {8, 3, 3, 3};
  request.format = format;
  return makeConvProblem(request).value();
}

cuda::GpuRequest requestIn(const ConvFormat& format, Precision precision = Precision::fp32) {
  return {problemIn(format), {}, "", kH200, precision};
}

constexpr int64_t kOwnBytes = 1000;

/** Refuses what is not in the format that it said. */
std::optional<std::string> refuseOther(const cuda::GpuRequest& request) {
  const ConvFormat& format = request.problem.format;
  if (request.precision == Precision::fp16 ? format.input == kPaddedPixels : format.isPlain()) return std::nullopt;
  return "was asked for another format than it computes in";
}

Estimate estimateOne(const cuda::GpuRequest&) { return {1, kOwnBytes, {}}; }

ConvFormat formatOf(const cuda::GpuRequest& request) {
  if (request.precision != Precision::fp16) return {};
  return {kPaddedPixels, kHalfPixels, kHalfPixels};
}

constexpr cuda::GpuAlgorithm kPlain{"plain", {}, refuseOther, estimateOne, nullptr, nullptr, nullptr};
constexpr cuda::GpuAlgorithm kHalf{"half", {}, refuseOther, estimateOne, nullptr, nullptr, nullptr, formatOf};

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

constexpr int64_t kInputs = 2 * 3 * 10 * 10, kOutputs = 2 * 8 * 8 * 8;

}  // namespace

TEST_CASE("what is computed in the format that was asked for costs what the algorithm says") {
  CHECK_FALSE(cuda::refusalOf(kPlain, requestIn({})));
  CHECK(cuda::estimateOf(kPlain, requestIn({})).milliseconds == 1);
  CHECK(cuda::estimateOf(kPlain, requestIn({})).workspaceBytes == kOwnBytes);
  const cuda::GpuRequest own = requestIn({kPaddedPixels, kHalfPixels, kHalfPixels}, Precision::fp16);
  CHECK_FALSE(cuda::refusalOf(kHalf, own));
  CHECK(cuda::estimateOf(kHalf, own).workspaceBytes == kOwnBytes);
}

TEST_CASE("an algorithm is asked for the format that it computes in, and its conversions are counted") {
  const cuda::GpuRequest halves = requestIn({kHalfPixels, kHalfPixels, kHalfPixels});
  CHECK_FALSE(cuda::refusalOf(kPlain, halves));
  const Estimate estimate = cuda::estimateOf(kPlain, halves);
  CHECK(estimate.workspaceBytes == kOwnBytes + aligned(kInputs * 4) + 2 * aligned(kOutputs * 4));
  // Two launches, and six bytes read or written for each element
  const double moved = static_cast<double>((kInputs + kOutputs) * 6) / kH200.bytesPerSecond * 1e3;
  CHECK(estimate.milliseconds > 1 + moved);
  CHECK(estimate.milliseconds < 1.1);
}

TEST_CASE("the format may follow from the precision, and only what differs from it is converted") {
  const cuda::GpuRequest plain = requestIn({}, Precision::fp16);
  CHECK_FALSE(cuda::refusalOf(kHalf, plain));
  const cuda::Conversions all = cuda::conversionsTo(cuda::computedRequest(kHalf, plain).problem.format, plain.problem);
  CHECK(all.input.isNeeded());
  // Eight elements a pixel, of which the last pixel has three
  CHECK(all.input.computedBytes() == ((200 - 1) * 8 + 3) * 2);
  CHECK(all.residual.offset == aligned(all.input.computedBytes()));
  CHECK(all.output.offset == all.residual.offset + aligned(kOutputs * 2));
  CHECK(all.bytes == all.output.offset + aligned(kOutputs * 2));

  const cuda::GpuRequest mixed = requestIn({{}, kHalfPixels, kHalfPixels}, Precision::fp16);
  const cuda::Conversions some = cuda::conversionsTo(cuda::computedRequest(kHalf, mixed).problem.format, mixed.problem);
  CHECK(some.input.isNeeded());
  CHECK_FALSE(some.residual.isNeeded());
  CHECK_FALSE(some.output.isNeeded());
  CHECK(cuda::promisingVariants(kHalf, mixed) == std::vector<std::string>{""});
}
