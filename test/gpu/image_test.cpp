#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cuda/algorithm.h"
#include "support/one_step.h"
#include "support/runs.h"
#include "typed/small_floats.h"

using namespace warpconv;

namespace {

/** What is not touched stays so. */
constexpr uint16_t kUntouched = 0x7e55;

float decoded(FloatType type, uint16_t bits) {
  return type == FloatType::float16 ? typed::Float16::decode(bits) : typed::BFloat16::decode(bits);
}

uint16_t encoded(FloatType type, float value) {
  return static_cast<uint16_t>(type == FloatType::float16 ? typed::Float16::encode(value)
                                                          : typed::BFloat16::encode(value));
}

float rounded(FloatType type, float value) { return decoded(type, encoded(type, value)); }

/** Input, filters and biases as they are given; the residual in halves, its pixels as far apart as the format says. */
struct ImageOperands {
  std::vector<float> input, weight, bias;
  std::vector<uint16_t> residual;
};

int64_t pitchOf(const TensorFormat& format, int64_t channels) { return format.pitch == 0 ? channels : format.pitch; }

ImageOperands anyOperands(const ConvProblem& x, auto&& value) {
  const auto floats = [&](int64_t count) {
    std::vector<float> all(static_cast<size_t>(count));
    for (float& one : all) one = value();
    return all;
  };
  ImageOperands made{floats(x.inputSize()), floats(x.weightSize()), floats(x.k), {}};
  made.residual.resize(static_cast<size_t>(spanOf(x.format.residual, x.n, x.k, x.p * x.q)), kUntouched);
  const int64_t pitch = pitchOf(x.format.residual, x.k);
  for (size_t i = 0; i < made.residual.size(); ++i) {
    if (static_cast<int64_t>(i) % pitch < x.k) made.residual[i] = encoded(x.format.residual.type, value());
  }
  return made;
}

/** A sum of rounded operands, and that of its terms' magnitudes, by the definition. */
std::array<double, 2> sumOf(const ConvProblem& x, const ImageOperands& operands, bool withBias, bool withResidual,
                            int64_t pixel, int64_t k) {
  const FloatType type = x.format.output.type;
  const int64_t q = pixel % x.q, p = pixel / x.q % x.p, n = pixel / (x.p * x.q);
  std::array<double, 2> sum{};
  const auto add = [&](double term) { sum[0] += term, sum[1] += std::abs(term); };
  if (withBias) add(operands.bias[static_cast<size_t>(k)]);
  for (int64_t c = 0; c < x.c; ++c) {
    for (int64_t r = 0; r < x.r; ++r) {
      for (int64_t s = 0; s < x.s; ++s) {
        const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
        const int64_t w = q * x.stride.w + s * x.dilation.w - x.padding.left;
        if (h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
        const float element = operands.input[static_cast<size_t>(((n * x.c + c) * x.h + h) * x.w + w)];
        const float weight = operands.weight[static_cast<size_t>(((k * x.c + c) * x.r + r) * x.s + s)];
        add(double{rounded(type, element)} * rounded(type, weight));
      }
    }
  }
  if (withResidual) {
    add(decoded(type, operands.residual[static_cast<size_t>(pixel * pitchOf(x.format.residual, x.k) + k)]));
  }
  return sum;
}

cuda::GpuRequest requestOf(const ConvProblem& x, const Activation& activation = {}) {
  cuda::GpuRequest request = test::requestFor(x, "", activation);
  request.precision = x.format.output.type == FloatType::float16 ? Precision::fp16 : Precision::bf16;
  return request;
}

std::vector<uint16_t> outputOf(const cuda::GpuRequest& request, const ImageOperands& operands, bool withBias,
                               bool withResidual) {
  const ConvProblem& x = request.problem;
  Weights weights(operands.weight.data(), x.k, x.filterSize());
  cuda::Tables tables(test::queue());
  const test::DeviceArray<float> input(operands.input), bias(operands.bias);
  const test::DeviceArray<uint16_t> residual(operands.residual);
  test::check(cudaDeviceSynchronize());
  const auto prepared =
      cuda::gpuAlgorithm("image").prepare(request, {weights, withBias ? bias.data() : nullptr, test::queue(), tables});
  REQUIRE(prepared.isOk());
  const test::DeviceArray<uint16_t> output(
      std::vector<uint16_t>(static_cast<size_t>(spanOf(x.format.output, x.n, x.k, x.p * x.q)), kUntouched));
  REQUIRE(prepared.value()
              ->enqueue({input.data(), withResidual ? residual.data() : nullptr, output.data()}, nullptr, nullptr)
              .isOk());
  test::check(cudaStreamSynchronize(nullptr));
  return output.toHost();
}

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> choices) {
  return choices.begin()[random() % choices.size()];
}

/** One that is not refused. */
ConvProblem anyProblem(std::mt19937& random) {
  while (true) {
    ConvRequest request;
    const int64_t channels = pick(random, {1, 2, 3, 3, 3, 4, 5, 7}),
                  filters = pick(random, {1, 8, 12, 24, 32, 60, 64, 96, 128});
    const int64_t size = pick(random, {1, 2, 3, 3, 4, 5, 7, 7, 11});
    request.inputDims = {pick(random, {1, 2, 3}), channels, pick(random, {1, 5, 8, 17, 30, 50}),
                         pick(random, {1, 7, 16, 19, 33, 50})};
    request.weightDims = {filters, channels, size, random() % 4 == 0 ? pick(random, {1, 2, 3, 5, 6}) : size};
    request.stride = {pick(random, {1, 1, 2, 2, 3, 4}), 1};
    request.stride.w = random() % 6 == 0 ? pick(random, {1, 2, 3, 5}) : request.stride.h;
    if (random() % 6 == 0) request.dilation = {pick(random, {1, 2, 3}), 1};
    for (int64_t* side :
         {&request.padding.top, &request.padding.bottom, &request.padding.left, &request.padding.right}) {
      *side = pick(random, {0, 1, size / 2, 5});
    }
    const FloatType type = random() % 2 == 0 ? FloatType::float16 : FloatType::bfloat16;
    const auto format = [&]() -> TensorFormat {
      return {type, Layout::nhwc, (filters + 7) / 8 * 8 + pick(random, {0, 0, 8, 16})};
    };
    request.format = {{}, format(), format()};
    const auto made = makeConvProblem(request);
    if (!made.isOk() || made.value().multiplyAdds() > 3e6) continue;
    if (!cuda::gpuAlgorithm("image").refusal(requestOf(made.value()))) return made.value();
  }
}

/** Half of the distance of neighbouring numbers, relative to them. */
double roundingOf(FloatType type) { return std::ldexp(1.0, type == FloatType::float16 ? -11 : -8); }

}  // namespace

TEST_CASE("fuzzed images: integers exactly, reals rounded, pixels apart, nothing between them touched") {
  std::mt19937 random(test::fuzzSeed());
  std::uniform_real_distribution<float> real(-1.0f, 1.0f);
  for (int round = 0; round < test::rounds(300); ++round) {
    const ConvProblem x = anyProblem(random);
    const bool integers = random() % 2 == 0, withBias = random() % 2 == 0, withResidual = random() % 2 == 0;
    const ImageOperands operands = anyOperands(
        x, [&] { return integers ? static_cast<float>(static_cast<int>(random() % 7) - 3) : real(random); });
    const FloatType type = x.format.output.type;
    INFO(describe(x) << ", bfloat16: " << (type == FloatType::bfloat16));
    const std::vector<uint16_t> output = outputOf(requestOf(x), operands, withBias, withResidual);
    const int64_t pitch = pitchOf(x.format.output, x.k);
    for (size_t i = 0; i < output.size(); ++i) {
      const int64_t pixel = static_cast<int64_t>(i) / pitch, channel = static_cast<int64_t>(i) % pitch;
      if (channel >= x.k) {
        REQUIRE(output[i] == kUntouched);
        continue;
      }
      const auto [sum, magnitude] = sumOf(x, operands, withBias, withResidual, pixel, channel);
      const double made = decoded(type, output[i]);
      INFO("pixel " << pixel << ", channel " << channel);
      if (integers) {
        REQUIRE(made == double{rounded(type, static_cast<float>(sum))});
      } else {
        // What tensor cores drop of a sum, one rounding, and half of a subnormal number's last place.
        REQUIRE(std::abs(made - sum) <= roundingOf(type) * std::abs(sum) + 2e-5 * magnitude + std::ldexp(1.0, -25));
      }
    }
  }
}

TEST_CASE("images: infinity and NaN come out where windows hold them, and nowhere else") {
  for (const auto& [window, stride] : {std::array<int64_t, 2>{3, 1}, {3, 2}, {7, 2}, {4, 4}, {1, 1}}) {
    ConvRequest request;
    request.inputDims = {1, 3, 40, 40};
    request.weightDims = {16, 3, window, window};
    request.stride = {stride, stride};
    request.padding = {window / 2, window / 2, window / 2, window / 2};
    const TensorFormat format{FloatType::float16, Layout::nhwc};
    request.format = {{}, format, format};
    const ConvProblem x = makeConvProblem(request).value();
    for (const float special : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      ImageOperands operands = anyOperands(x, [] { return 0.0f; });
      for (float& weight : operands.weight) weight = 1.0f;
      constexpr int64_t kRow = 21, kColumn = 18;
      operands.input[(1 * 40 + kRow) * 40 + kColumn] = special;
      const std::vector<uint16_t> output = outputOf(requestOf(x), operands, false, false);
      for (int64_t pixel = 0; pixel < x.p * x.q; ++pixel) {
        const int64_t r = kRow + x.padding.top - pixel / x.q * stride,
                      s = kColumn + x.padding.left - pixel % x.q * stride;
        const bool holds = r >= 0 && r < window && s >= 0 && s < window;
        INFO(describe(x) << ", pixel " << pixel);
        for (int64_t k = 0; k < x.k; ++k) {
          const float made = decoded(FloatType::float16, output[static_cast<size_t>(pixel * x.k + k)]);
          CHECK(std::isfinite(made) != holds);
        }
      }
    }
  }
}
