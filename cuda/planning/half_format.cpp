#include "cuda/planning/half_format.h"

#include "divide.h"

namespace warpconv::cuda {
namespace {

FloatType halfType(const GpuRequest& request) {
  const FloatType given = request.problem.format.input.type;
  if (isHalf(given)) return given;
  if (request.precision == Precision::fp16) return FloatType::float16;
  return request.precision == Precision::bf16 ? FloatType::bfloat16 : FloatType::float32;
}

}  // namespace

ConvFormat halfFormat(const GpuRequest& request, int64_t elements) {
  const ConvProblem& x = request.problem;
  const FloatType type = halfType(request);
  if (!isHalf(type)) return x.format;
  const auto taken = [&](const TensorFormat& given, int64_t channels) {
    const bool isTaken = given.type == type && given.layout == Layout::nhwc && pitchOf(given, channels) % elements == 0;
    return isTaken ? given
                   : TensorFormat{type, Layout::nhwc, channels % elements == 0 ? 0 : roundUp(channels, elements)};
  };
  return {taken(x.format.input, x.c), taken(x.format.residual, x.k), taken(x.format.output, x.k)};
}

}  // namespace warpconv::cuda
