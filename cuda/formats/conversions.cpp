#include "cuda/formats/conversions.h"

#include "divide.h"

namespace warpconv::cuda {
namespace {

int64_t bytesOf(const TensorFormat& format, const FormatExtents& x) {
  return spanOf(format, x.n, x.channels, x.area) * widthOf(format.type);
}

double millisecondsOf(const Conversion& conversion, const GpuTraits& traits) {
  // A launch in a graph, and the share of the bandwidth that copies with transposition reach: assumed, not fitted.
  constexpr double kLaunchMilliseconds = 0.002;
  constexpr double kShareOfBandwidth = 0.75;
  if (!conversion.isNeeded()) return 0;
  const FormatExtents& x = conversion.extents;
  const auto bytes = static_cast<double>(bytesOf(conversion.asked, x) + bytesOf(conversion.computed, x));
  return kLaunchMilliseconds + bytes / (kShareOfBandwidth * withoutGaps(traits).bytesPerSecond) * 1e3;
}

ConvFormat computedFormat(const GpuAlgorithm& algorithm, const GpuRequest& request) {
  return algorithm.format == nullptr ? ConvFormat{} : algorithm.format(request);
}

}  // namespace

int64_t Conversion::computedBytes() const { return bytesOf(computed, extents); }

Conversions conversionsTo(const ConvFormat& computed, const ConvProblem& x) {
  const FormatExtents input{x.n, x.c, x.h * x.w}, output{x.n, x.k, x.p * x.q};
  Conversions all{.input = {input, x.format.input, computed.input},
                  .residual = {output, x.format.residual, computed.residual},
                  .output = {output, x.format.output, computed.output}};
  for (Conversion* const one : {&all.input, &all.residual, &all.output}) {
    if (!one->isNeeded()) continue;
    one->offset = all.bytes;
    all.bytes += roundUp(one->computedBytes(), DeviceMemory::kAlignment);
  }
  return all;
}

GpuRequest computedRequest(const GpuAlgorithm& algorithm, const GpuRequest& request) {
  GpuRequest computed = request;
  computed.problem.format = computedFormat(algorithm, request);
  return computed;
}

std::optional<std::string> refusalOf(const GpuAlgorithm& algorithm, const GpuRequest& request) {
  return algorithm.refusal(computedRequest(algorithm, request));
}

Estimate estimateOf(const GpuAlgorithm& algorithm, const GpuRequest& request) {
  const GpuRequest computed = computedRequest(algorithm, request);
  const Conversions conversions = conversionsTo(computed.problem.format, request.problem);
  Estimate estimate = algorithm.estimate(computed);
  estimate.milliseconds +=
      millisecondsOf(conversions.input, request.traits) + millisecondsOf(conversions.output, request.traits);
  estimate.workspaceBytes += conversions.bytes;
  return estimate;
}

std::vector<FilterForm> formsOf(const GpuAlgorithm& algorithm, const GpuRequest& request, const Weights& weights) {
  return algorithm.forms(computedRequest(algorithm, request), weights);
}

std::optional<std::string> packedVariantOf(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                           const Weights& weights) {
  const GpuRequest computed = computedRequest(algorithm, request);
  if (areIn(algorithm.forms(computed, weights), weights)) return "";
  return algorithm.packedVariant == nullptr ? std::nullopt : algorithm.packedVariant(computed, weights);
}

}  // namespace warpconv::cuda
