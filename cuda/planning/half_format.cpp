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
  const FloatType type = halfType(request);
  return isHalf(type) ? pixelsFormat(request.problem, type, elements) : request.problem.format;
}

ConvFormat pixelsFormat(const ConvProblem& x, FloatType type, int64_t elements) {
  const auto taken = [&](const TensorFormat& given, FloatType wanted, int64_t channels) {
    const bool isTaken =
        given.type == wanted && given.layout == Layout::nhwc && pitchOf(given, channels) % elements == 0;
    return isTaken ? given
                   : TensorFormat{wanted, Layout::nhwc, channels % elements == 0 ? 0 : roundUp(channels, elements)};
  };
  const auto sums = [&](const TensorFormat& given) {
    return taken(given, given.type == type ? type : FloatType::float32, x.k);
  };
  return {taken(x.format.input, type, x.c), sums(x.format.residual), sums(x.format.output)};
}

}  // namespace warpconv::cuda
