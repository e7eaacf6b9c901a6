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

/** A tensor in NHWC on both sides. `pitch` is that of its pixels in memory. */
struct Halves {
  std::vector<uint16_t> bits;
  int64_t pitch;
  test::DeviceArray<uint16_t> device;

  Halves(const TensorFormat& format, int64_t n, int64_t channels, int64_t area, auto&& value)
      : bits(static_cast<size_t>(spanOf(format, n, channels, area))),
        pitch(format.pitch == 0 ? channels : format.pitch),
        device(filled(format.type, channels, value)) {}

  uint16_t at(int64_t pixel, int64_t channel) const { return bits[static_cast<size_t>(pixel * pitch + channel)]; }

 private:
  /** Between pixels NaN, which must not come in. */
  const std::vector<uint16_t>& filled(FloatType type, int64_t channels, auto&& value) {
    for (size_t i = 0; i < bits.size(); ++i) {
      bits[i] = static_cast<int64_t>(i) % pitch < channels ? encoded(type, value()) : kUntouched;
    }
    return bits;
  }
};

struct Tensors {
  Halves input, residual;
  std::vector<float> weight, bias;
};

/** A sum, and the sum of its terms' magnitudes, by the definition. */
std::array<double, 2> sumOf(const ConvProblem& x, const Tensors& tensors, bool withBias, bool withResidual,
                            int64_t pixel, int64_t channel) {
  const int64_t q = pixel % x.q, p = pixel / x.q % x.p, n = pixel / (x.p * x.q);
  std::array<double, 2> sum{};
  const auto add = [&](double term) { sum[0] += term, sum[1] += std::abs(term); };
  if (withBias) add(tensors.bias[static_cast<size_t>(channel)]);
  for (int64_t r = 0; r < x.r; ++r) {
    for (int64_t s = 0; s < x.s; ++s) {
      const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
      const int64_t w = q * x.stride.w + s * x.dilation.w - x.padding.left;
      if (h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
      const uint16_t element = tensors.input.at((n * x.h + h) * x.w + w, channel);
      add(double{decoded(x.format.input.type, element)} *
          tensors.weight[static_cast<size_t>((channel * x.r + r) * x.s + s)]);
    }
  }
  if (withResidual) add(decoded(x.format.residual.type, tensors.residual.at(pixel, channel)));
  return sum;
}

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> choices) {
  return choices.begin()[random() % choices.size()];
}

ConvProblem anyProblem(std::mt19937& random) {
  while (true) {
    ConvRequest request;
    const int64_t channels = pick(random, {2, 4, 6, 8, 58, 64, 96, 130, 144});
    const int64_t filter = pick(random, {1, 3, 3, 3, 5, 5, 7, 7, 4, 11});
    request.inputDims = {pick(random, {1, 2, 3}), channels, pick(random, {1, 2, 5, 7, 8, 14, 20}),
                         pick(random, {1, 4, 5, 7, 8, 9, 14, 15, 28})};
    request.weightDims = {channels, 1, filter, random() % 10 == 0 ? pick(random, {1, 2, 5}) : filter};
    request.groups = channels;
    request.stride = {pick(random, {1, 1, 2, 2, 3}), 1};
    request.stride.w = random() % 10 == 0 ? pick(random, {1, 2, 4}) : request.stride.h;
    if (random() % 6 == 0) request.dilation = {pick(random, {1, 2}), pick(random, {1, 3})};
    request.padding = {pick(random, {0, 1, filter / 2, 8}), pick(random, {0, 1, filter / 2, 8}),
                       pick(random, {0, filter / 2, 5}), pick(random, {0, filter / 2, 5})};
    const FloatType type = random() % 2 == 0 ? FloatType::float16 : FloatType::bfloat16;
    const auto format = [&]() -> TensorFormat {
      return {type, Layout::nhwc, random() % 2 == 0 ? 0 : channels + pick(random, {2, 8, 14})};
    };
    request.format = {format(), format(), format()};
    const auto problem = makeConvProblem(request);
    if (problem.isOk() && problem.value().multiplyAdds() < 1e6) return problem.value();
  }
}

std::vector<uint16_t> outputOf(const cuda::GpuRequest& request, const Tensors& tensors, bool withBias,
                               bool withResidual) {
  const ConvProblem& x = request.problem;
  Weights weights(tensors.weight.data(), x.k, x.filterSize());
  cuda::Tables tables(test::queue());
  const test::DeviceArray<float> bias(tensors.bias);
  test::check(cudaDeviceSynchronize());
  const auto prepared = cuda::gpuAlgorithm("depthwise")
                            .prepare(request, {weights, withBias ? bias.data() : nullptr, test::queue(), tables});
  REQUIRE(prepared.isOk());
  const Halves output(x.format.output, x.n, x.k, x.p * x.q, [] { return 1.0f; });
  const Status status = prepared.value()->enqueue(
      {tensors.input.device.data(), withResidual ? tensors.residual.device.data() : nullptr, output.device.data()},
      nullptr, nullptr);
  REQUIRE(status.isOk());
  test::check(cudaStreamSynchronize(nullptr));
  return output.device.toHost();
}

Tensors anyTensors(const ConvProblem& x, auto&& value) {
  std::vector<float> weight(static_cast<size_t>(x.weightSize())), bias(static_cast<size_t>(x.k));
  for (float& one : weight) one = value();
  for (float& one : bias) one = value();
  return {Halves(x.format.input, x.n, x.c, x.h * x.w, value), Halves(x.format.residual, x.n, x.k, x.p * x.q, value),
          std::move(weight), std::move(bias)};
}

/** Half of the distance of neighbouring numbers, relative to them. */
double roundingOf(FloatType type) { return std::ldexp(1.0, type == FloatType::float16 ? -11 : -8); }

}  // namespace

TEST_CASE("depthwise in halves: integers exactly, reals rounded once, pixels apart, nothing between them touched") {
  std::mt19937 random(test::fuzzSeed());
  std::uniform_real_distribution<float> real(-1.0f, 1.0f);
  for (int round = 0; round < test::rounds(400); ++round) {
    const ConvProblem x = anyProblem(random);
    const bool integers = random() % 2 == 0, withBias = random() % 2 == 0, withResidual = random() % 2 == 0;
    const Tensors tensors =
        anyTensors(x, [&] { return integers ? static_cast<float>(static_cast<int>(random() % 7) - 3) : real(random); });
    const FloatType type = x.format.output.type;
    const cuda::GpuRequest request = test::requestFor(x, "");
    INFO(describe(x) << ", bfloat16: " << (type == FloatType::bfloat16));
    REQUIRE_FALSE(cuda::gpuAlgorithm("depthwise").refusal(request).has_value());
    const std::vector<uint16_t> output = outputOf(request, tensors, withBias, withResidual);
    const int64_t pitch = x.format.output.pitch == 0 ? x.k : x.format.output.pitch;
    for (size_t i = 0; i < output.size(); ++i) {
      const int64_t pixel = static_cast<int64_t>(i) / pitch, channel = static_cast<int64_t>(i) % pitch;
      if (channel >= x.k) {
        REQUIRE(output[i] == kUntouched);
        continue;
      }
      const auto [sum, magnitude] = sumOf(x, tensors, withBias, withResidual, pixel, channel);
      const double made = decoded(type, output[i]);
      INFO("pixel " << pixel << ", channel " << channel);
      if (integers) {
        REQUIRE(made == double{decoded(type, encoded(type, static_cast<float>(sum)))});
      } else {
        // Sums as float32's rule has them, then one rounding; the least is half of a subnormal number's last place.
        REQUIRE(std::abs(made - sum) <= roundingOf(type) * std::abs(sum) + 4e-6 * magnitude + std::ldexp(1.0, -25));
      }
    }
  }
}

TEST_CASE("depthwise in halves: every activation, near what it is in double") {
  struct Case {
    const char* name;
    std::vector<double> parameters;
    double (*expected)(double);
  };
  const Case cases[] = {
      {"relu", {}, [](double x) { return x < 0 ? 0 : x; }},
      {"leakyRelu", {0.125}, [](double x) { return x < 0 ? 0.125 * x : x; }},
      {"clip", {-2.0, 6.0}, [](double x) { return std::min(std::max(x, -2.0), 6.0); }},
      {"sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"silu", {}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"hardSwish", {}, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {"gelu", {}, [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }},
  };
  std::mt19937 random(test::fuzzSeed());
  for (int round = 0; round < 20; ++round) {
    const ConvProblem x = anyProblem(random);
    const Tensors tensors = anyTensors(x, [&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); });
    const FloatType type = x.format.output.type;
    const int64_t pitch = x.format.output.pitch == 0 ? x.k : x.format.output.pitch;
    for (const Case& activation : cases) {
      const Activation made = makeActivation(activation.name, activation.parameters).value();
      const std::vector<uint16_t> output = outputOf(test::requestFor(x, "", made), tensors, true, true);
      INFO(std::string(activation.name) << ", " << describe(x));
      for (size_t i = 0; i < output.size(); ++i) {
        const int64_t pixel = static_cast<int64_t>(i) / pitch, channel = static_cast<int64_t>(i) % pitch;
        if (channel >= x.k) continue;
        const double expected = activation.expected(sumOf(x, tensors, true, true, pixel, channel)[0]);
        // An integer's rounding, and what approximate powers and quotients add.
        REQUIRE(std::abs(decoded(type, output[i]) - expected) <=
                (roundingOf(type) + (made.kind == ActivationKind::gelu ? 2e-4 : 4e-5)) * std::abs(expected) +
                    std::ldexp(1.0, -25));
      }
    }
  }
}

TEST_CASE("depthwise in halves: infinity and NaN come out where windows hold them, large sums become infinite") {
  ConvRequest request;
  request.inputDims = {1, 4, 9, 9};
  request.weightDims = {4, 1, 3, 3};
  request.padding = {1, 1, 1, 1};
  request.groups = 4;
  const TensorFormat format{FloatType::float16, Layout::nhwc};
  request.format = {format, format, format};
  const ConvProblem x = makeConvProblem(request).value();
  int element = 0;
  // Channel 0 of pixel 40, the middle, is infinite; channel 2 is NaN; channel 3 is as large as can be all over.
  const auto value = [&] {
    const int channel = element % 4, pixel = element++ / 4;
    if (channel == 3) return 65504.0f;
    if (pixel != 40 || channel == 1) return 1.0f;
    return channel == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  };
  const Tensors tensors{Halves(x.format.input, 1, 4, 81, value),
                        Halves(x.format.residual, 1, 4, 81, [] { return 0.0f; }), std::vector<float>(36, 1.0f),
                        std::vector<float>(4, 0.0f)};
  const std::vector<uint16_t> output = outputOf(test::requestFor(x, ""), tensors, false, false);
  for (int pixel = 0; pixel < 81; ++pixel) {
    const bool nearMiddle = std::abs(pixel / 9 - 4) <= 1 && std::abs(pixel % 9 - 4) <= 1;
    const auto made = [&](int channel) {
      return decoded(FloatType::float16, output[static_cast<size_t>(pixel * 4 + channel)]);
    };
    INFO("pixel " << pixel);
    CHECK(std::isinf(made(0)) == nearMiddle);
    CHECK(std::isfinite(made(1)));
    CHECK(std::isnan(made(2)) == nearMiddle);
    CHECK(std::isinf(made(3)));
  }
}

// Kernels may begin while the one before still runs, so one that does not wait gives other numbers.
TEST_CASE("depthwise in halves: kernels in a row wait for each other's outputs") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> real(-0.3f, 0.3f);
  for (const auto& [channels, extent, filter] :
       {std::array<int64_t, 3>{96, 14, 3}, {64, 40, 5}, {32, 14, 7}, {64, 7, 9}}) {
    ConvRequest request;
    request.inputDims = {1, channels, extent, extent};
    request.weightDims = {channels, 1, filter, filter};
    request.padding = {filter / 2, filter / 2, filter / 2, filter / 2};
    request.groups = channels;
    const TensorFormat format{FloatType::bfloat16, Layout::nhwc};
    request.format = {format, format, format};
    const ConvProblem x = makeConvProblem(request).value();
    const Tensors tensors = anyTensors(x, [&] { return real(random); });
    Weights weights(tensors.weight.data(), x.k, x.filterSize());
    cuda::Tables tables(test::queue());
    const auto prepared =
        cuda::gpuAlgorithm("depthwise").prepare(test::requestFor(x, ""), {weights, nullptr, test::queue(), tables});
    REQUIRE(prepared.isOk());
    const auto made = [&](bool oneByOne) {
      const test::DeviceArray<uint16_t> a(tensors.input.bits), b(a.size());
      uint16_t *from = a.data(), *to = b.data();
      for (int i = 0; i < 24; ++i, std::swap(from, to)) {
        REQUIRE(prepared.value()->enqueue({from, nullptr, to}, nullptr, nullptr).isOk());
        if (oneByOne) test::check(cudaStreamSynchronize(nullptr));
      }
      test::check(cudaStreamSynchronize(nullptr));
      return (from == a.data() ? a : b).toHost();
    };
    INFO(describe(x));
    REQUIRE(made(false) == made(true));
  }
}
