#include "cuda/im2col/im2col.h"
#include "cuda/planning/shape.h"
#include "cuda/pointwise/pointwise.h"

namespace warpconv::cuda {

int64_t columnBytes(const ConvProblem& product) {
  // What follows the matrix in the workspace begins on a boundary of device memory, too.
  constexpr int64_t kAlignment = 256;
  const int64_t bytes = product.inputSize() * static_cast<int64_t>(sizeof(float));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

GpuRequest matrixProductOf(const GpuRequest& request) {
  GpuRequest product = request;
  product.variant.clear();
  ConvProblem& x = product.problem;
  x.c *= x.r * x.s;
  x.h = x.p;
  x.w = x.q;
  x.r = x.s = 1;
  x.stride = x.dilation = {1, 1};
  x.padding = {};
  return product;
}

std::optional<std::string> refuseIm2col(const GpuRequest& request) {
  if (auto large = refuseLarge(request.problem)) return large;
  const GpuRequest product = matrixProductOf(request);
  if (auto large = refuseLarge(product.problem)) {
    return "takes column matrices of fewer than 2^31 elements; this problem's has " +
           std::to_string(product.problem.inputSize());
  }
  return kPointwise.refusal(product);
}

namespace {

/**
 * The matrix is written; what is read of the input for it comes from the L2 cache. Most of the time goes into finding
 * out what to read: a thread divides by extents to place one element, 185 instructions by the disassembly for sm_90.
 * With them conv7 of the bench, 27 x 49284 columns, is predicted to take 21 us on an H200, of which the product 8.5;
 * 22.0 to 22.8 were measured. Without them it was 13.6, and `auto` preferred it to im2win's 15.
 */
double columnMilliseconds(const ConvProblem& product, const GpuTraits& traits) {
  constexpr double kLaunchMilliseconds = 0.0045;
  constexpr double kInstructions = 185;
  // A lane that multiplies and adds does two operations in each instruction.
  const double instructions = kInstructions * static_cast<double>(product.inputSize());
  return kLaunchMilliseconds + 2 * instructions / traits.flopsPerSecond * 1e3 +
         static_cast<double>(columnBytes(product)) / traits.bytesPerSecond * 1e3;
}

}  // namespace

Estimate estimateIm2col(const GpuRequest& request) {
  const GpuRequest product = matrixProductOf(request);
  Estimate estimate = kPointwise.estimate(product);
  estimate.milliseconds += columnMilliseconds(product.problem, request.traits);
  // What the product chose from has no names here.
  estimate.considered = nullptr;
  // The product's own scratch memory follows the matrix.
  estimate.workspaceBytes += columnBytes(product.problem);
  estimate.tiles.emplace_back("matrixBytes", columnBytes(product.problem));
  return estimate;
}

std::vector<FilterForm> formsIm2col(const GpuRequest& request, const Weights& weights) {
  return kPointwise.forms(matrixProductOf(request), weights);
}

}  // namespace warpconv::cuda
