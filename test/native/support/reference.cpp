#include "support/reference.h"

#include <cmath>

namespace warpconv::test {

Reference convolveInDouble(const ConvRequest& request, const std::array<int64_t, 4>& outputDims, int64_t padTop,
                           int64_t padLeft, const Tensors& tensors) {
  const auto [N, C, H, W] = request.inputDims;
  const auto [K, Cg, R, S] = request.weightDims;
  const int64_t P = outputDims[2];
  const int64_t Q = outputDims[3];
  Reference result{std::vector<double>(static_cast<size_t>(N * K * P * Q)), {}};
  result.bound = result.output;
  for (int64_t o = 0; o < N * K * P * Q; ++o) {
    const int64_t q = o % Q, p = o / Q % P, k = o / (Q * P) % K, n = o / (Q * P * K);
    const auto at = static_cast<size_t>(o);
    const double bias = tensors.bias.empty() ? 0.0 : double{tensors.bias[static_cast<size_t>(k)]};
    const double residual = tensors.residual.empty() ? 0.0 : double{tensors.residual[at]};
    double sum = 0, magnitude = 0;
    for (int64_t f = 0; f < Cg * R * S; ++f) {
      const int64_t s = f % S, r = f / S % R, c = f / (S * R);
      const int64_t h = p * request.stride.h + r * request.dilation.h - padTop;
      const int64_t w = q * request.stride.w + s * request.dilation.w - padLeft;
      if (h < 0 || w < 0 || h >= H || w >= W) continue;
      const int64_t channel = k / (K / request.groups) * Cg + c;
      const double product = double{tensors.input[static_cast<size_t>(((n * C + channel) * H + h) * W + w)]} *
                             double{tensors.weight[static_cast<size_t>(k * Cg * R * S + f)]};
      sum += product;
      magnitude += std::abs(product);
    }
    result.output[at] = sum + bias + residual;
    result.bound[at] = magnitude + std::abs(bias) + std::abs(residual);
  }
  return result;
}

void fillWithIntegers(std::vector<float>& values, std::mt19937& random) {
  std::uniform_int_distribution<int> pick(-7, 7);
  for (float& value : values) value = static_cast<float>(pick(random));
}

void fillWithReals(std::vector<float>& values, std::mt19937& random) {
  std::uniform_real_distribution<float> pick(-1.0f, 1.0f);
  for (float& value : values) value = pick(random);
}

namespace {

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> choices) {
  return choices.begin()[random() % choices.size()];
}

ConvRequest anyRequest(std::mt19937& random) {
  ConvRequest request;
  const int64_t groups = pick(random, {1, 1, 1, 2, 3, 5});
  const int64_t groupInputs = pick(random, {1, 2, 3, 7, 16, 33});
  const int64_t groupOutputs = pick(random, {1, 2, 7, 8, 9, 17});
  request.groups = groups;
  request.inputDims = {pick(random, {1, 1, 2}), groups * groupInputs, pick(random, {1, 3, 5, 8, 12}),
                       pick(random, {1, 4, 7, 8, 9, 15, 16, 17, 25})};
  request.weightDims = {groups * groupOutputs, groupInputs, pick(random, {1, 1, 2, 3, 3, 5, 7}),
                        pick(random, {1, 1, 2, 3, 3, 4, 5})};
  request.stride = {pick(random, {1, 1, 2, 3}), pick(random, {1, 1, 2, 3})};
  request.dilation = {pick(random, {1, 1, 2}), pick(random, {1, 1, 3})};
  request.padding = {pick(random, {0, 1, 2, 4}), pick(random, {0, 1, 2, 5}), pick(random, {0, 1, 3}),
                     pick(random, {0, 1, 2})};
  request.paddingMode = random() % 5 == 0 ? PaddingMode::same : PaddingMode::given;
  return request;
}

}  // namespace

ConvRequest randomRequest(std::mt19937& random, double mostMultiplyAdds) {
  while (true) {
    const ConvRequest request = anyRequest(random);
    const Result<ConvProblem> problem = makeConvProblem(request);
    if (problem.isOk() && problem.value().multiplyAdds() <= mostMultiplyAdds) return request;
  }
}

}  // namespace warpconv::test
