#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/one_step.h"
#include "typed/small_floats.h"

/** Steps of halves, against their twins on the CPU, which compute in float32 and round. */
// Steps are given what a test is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace warpconv;
using namespace warpconv::program;

namespace {

using test::cpu;
using test::gpu;
using test::OneStep;
using test::Random;
using test::rounds;
using test::size;
using Operation = ElementwiseStep::Operation;

FloatType anyHalf(Random& random) { return random.maybe() ? FloatType::float16 : FloatType::bfloat16; }

float decode(FloatType type, uint16_t bits) {
  return type == FloatType::float16 ? typed::Float16::decode(bits) : typed::BFloat16::decode(bits);
}

std::vector<uint16_t> halvesOf(FloatType type, const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), [&](float value) {
    return static_cast<uint16_t>(type == FloatType::float16 ? typed::Float16::encode(value)
                                                            : typed::BFloat16::encode(value));
  });
  return halves;
}

/** Reals, here and there with NaN and infinities among them. */
std::vector<uint16_t> anyHalves(Random& random, FloatType type, int64_t count) {
  std::vector<float> values = random.reals(count);
  if (random.pick({1, 2, 3}) == 1) random.putSpecials(values);
  return halvesOf(type, values);
}

/** A last place of a half, of the larger of the two. */
double lastPlace(FloatType type, double value) {
  return std::abs(value) * (type == FloatType::float16 ? 0x1p-10 : 0x1p-7) + 0x1p-20;
}

/**
 * Of all elements from the first to the last, what lies between pixels among them: that stays as it was. `least`: what
 * a difference near zero may come to.
 */
void requireClose(const OneStep& one, const Step& step, FloatType type, double places = 1, double least = 0) {
  const std::vector<uint16_t> actual = one.run<uint16_t>(gpu(), step), expected = one.run<uint16_t>(cpu(), step);
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    const double a = double{decode(type, actual[i])}, b = double{decode(type, expected[i])};
    INFO("element " << i << " of " << actual.size() << " is " << a << ", not " << b);
    if (std::isnan(b)) {
      REQUIRE(std::isnan(a));
    } else {
      REQUIRE(std::abs(a - b) <= places * lastPlace(type, std::max(std::abs(a), std::abs(b))) + least);
    }
  }
}

/** Mostly whole words, and pixels of a tensor of more channels. */
struct Pixels {
  int64_t channels, pitch;

  explicit Pixels(Random& random) : channels(random.pick({1, 3, 8, 8, 10, 16, 24, 58, 64, 264})), pitch(channels) {
    if (random.maybe()) pitch += random.pick({0, 2, 6, 8, 64, 5});
  }
  int64_t span(int64_t pixels) const { return (pixels - 1) * pitch + channels; }
  TensorFormat format(FloatType type) const { return {type, Layout::nhwc, pitch == channels ? 0 : pitch}; }
};

/** Of channels that the given ones have, with a pitch of its own. */
Pixels likeOf(Random& random, const Pixels& pixels) {
  Pixels like = pixels;
  like.pitch = pixels.channels + (random.maybe() ? 0 : random.pick({2, 8, 64, 5}));
  return like;
}

}  // namespace

TEST_CASE("fuzzed chains of halves and floats, broadcast and with pixels apart") {
  Random random;
  for (int round = 0; round < rounds(400); ++round) {
    const FloatType type = anyHalf(random);
    const Pixels pixels(random);
    const int64_t images = random.pick({1, 2, 5}), area = random.pick({1, 4, 49, 200});
    OneStep one(random);
    if (random.maybe()) one.align();
    ElementwiseStep step;
    step.extents = {images, area, pixels.channels};
    const auto add = [&](FloatType of, const Buffer& buffer, std::vector<int64_t> strides) {
      step.types.push_back(of), step.operands.push_back(buffer), step.strides.push_back(std::move(strides));
    };
    const Pixels first = likeOf(random, pixels), second = likeOf(random, pixels);
    add(type, one.input(anyHalves(random, type, first.span(images * area))), {area * first.pitch, first.pitch, 1});
    add(type, one.input(anyHalves(random, type, second.span(images * area))), {area * second.pitch, second.pitch, 1});
    add(FloatType::float32, one.input(random.reals(pixels.channels)), {0, 0, 1});
    add(FloatType::float32, one.input(random.reals(images * pixels.channels)), {pixels.channels, 0, 1});
    add(type, one.input(anyHalves(random, type, images * area)), {area, 1, 0});
    add(FloatType::float32, one.input(random.reals(pixels.channels * images * area)),
        {area * pixels.channels, 1, area});
    step.code = {{Operation::add, 0, 1},      {Operation::multiply, 6, 2}, {Operation::multiply, 7, 3},
                 {Operation::add, 8, 4},      {Operation::sigmoid, 5, 0},  {Operation::multiply, 9, 10},
                 {Operation::maximum, 11, 6}, {Operation::relu, 12, 0}};
    step.code.resize(size(random.from(1, 8)));
    step.outputType = random.pick({1, 2, 3, 4}) == 1 ? FloatType::float32 : type;
    const Pixels output = likeOf(random, pixels);
    if (output.pitch != output.channels || random.maybe()) step.outputStrides = {area * output.pitch, output.pitch, 1};
    INFO("round " << round << ": " << images << " x " << area << " x " << pixels.channels);
    if (step.outputType == FloatType::float32) {
      step.output = one.output<float>(output.span(images * area));
      const auto actual = one.run<float>(gpu(), step), expected = one.run<float>(cpu(), step);
      for (size_t i = 0; i < actual.size(); ++i) {
        const bool isSame = std::isnan(expected[i]) ? std::isnan(actual[i])
                            : std::isinf(expected[i])
                                ? actual[i] == expected[i]
                                : std::abs(actual[i] - expected[i]) <= 1e-5f * (1 + std::abs(expected[i]));
        REQUIRE_MESSAGE(isSame, "element " << i << " is " << actual[i] << ", not " << expected[i]);
      }
    } else {
      step.output = one.output<uint16_t>(output.span(images * area));
      requireClose(one, step, type);
    }
  }
}

TEST_CASE("chains of a factor, a summand and bounds, of more pixels than a GPU has threads for") {
  Random random;
  for (int round = 0; round < rounds(6); ++round) {
    const FloatType type = anyHalf(random);
    const int64_t images = random.pick({1, 3}), area = random.pick({9000, 12'544});
    const int64_t channels = random.pick({64, 264}), pitch = channels + random.pick({0, 8});
    OneStep one(random);
    one.align();
    ElementwiseStep step;
    step.extents = {images, area, channels};
    const Buffer x = one.input(anyHalves(random, type, images * area * pitch));
    const Buffer dense = one.input(anyHalves(random, type, images * area * channels));
    const Buffer row = one.input(random.reals(channels)), rows = one.input(random.reals(images * channels));
    const bool isGate = random.maybe(), isResidual = random.maybe();
    step.types = {type, FloatType::float32, isResidual ? type : FloatType::float32};
    step.operands = {x, isGate ? rows : row, isResidual ? dense : row};
    step.strides = {{area * pitch, pitch, 1}, {isGate ? channels : 0, 0, 1}, {0, 0, 1}};
    if (isResidual) step.strides[2] = {area * channels, channels, 1};
    step.code = {{Operation::multiply, 1, 0}, {Operation::add, 3, 2}, {Operation::relu, 4, 0}};
    step.code.resize(size(random.from(1, 3)));
    step.outputType = type;
    step.output = one.output<uint16_t>(images * area * channels);
    INFO("round " << round << ": " << images << " x " << area << " x " << channels);
    requireClose(one, step, type);
  }
}

TEST_CASE("fuzzed pools of halves") {
  Random random;
  for (int round = 0; round < rounds(400); ++round) {
    const FloatType type = anyHalf(random);
    const Pixels from(random), to = likeOf(random, from);
    PoolStep step;
    step.mode = random.maybe() ? PoolStep::Mode::maximum : PoolStep::Mode::average;
    const int64_t images = random.from(1, 3);
    step.channels = from.channels, step.planes = images * step.channels;
    step.r = random.from(1, 5), step.s = random.from(1, 6);
    step.stride = {random.from(1, 3), random.from(1, 3)};
    step.dilation = {random.pick({1, 1, 2}), random.pick({1, 1, 3})};
    step.padding = {random.from(0, step.r - 1), random.from(0, step.s - 1)};
    step.endPadding = {random.from(0, step.r - 1), random.from(0, step.s - 1)};
    step.countPadding = random.maybe();
    step.h = random.from(1, 12) + (step.r - 1) * step.dilation[0];
    step.w = random.from(1, 12) + (step.s - 1) * step.dilation[1];
    const auto outputs = [&](size_t axis, int64_t extent, int64_t taps) {
      const int64_t padded = extent + step.padding[axis] + step.endPadding[axis];
      return (padded - (taps - 1) * step.dilation[axis] - 1) / step.stride[axis] + 1;
    };
    step.p = outputs(0, step.h, step.r), step.q = outputs(1, step.w, step.s);
    step.inputFormat = from.format(type), step.outputFormat = to.format(type);
    OneStep one(random);
    if (random.maybe()) one.align();
    step.input = one.input(anyHalves(random, type, from.span(images * step.h * step.w)));
    step.output = one.output<uint16_t>(to.span(images * step.p * step.q));
    INFO("round " << round << ": " << step.h << " x " << step.w << " to " << step.p << " x " << step.q << " of "
                  << step.channels);
    requireClose(one, step, type);
  }
}

TEST_CASE("fuzzed sums, means and extremes over pixels of halves") {
  Random random;
  for (int round = 0; round < rounds(300); ++round) {
    const FloatType type = anyHalf(random);
    const Pixels pixels(random);
    ReduceStep step;
    using Mode = ReduceStep::Mode;
    constexpr Mode kModes[] = {Mode::sum, Mode::mean, Mode::maximum, Mode::minimum};
    step.mode = kModes[round % 4];
    step.type = type;
    step.outer = random.pick({1, 2, 5}), step.reduced = random.pick({1, 2, 7, 49, 64, 700, 5000});
    step.inner = pixels.channels, step.pitch = pixels.format(type).pitch;
    // Integers, whose sums floats have.
    std::vector<float> values = random.integers(pixels.span(step.outer * step.reduced));
    if (random.pick({1, 2, 3}) == 1) random.putSpecials(values);
    OneStep one(random);
    if (random.maybe()) one.align();
    step.input = one.input(halvesOf(type, values));
    step.output = one.output<float>(step.outer * step.inner);
    INFO("round " << round << ": " << step.outer << " x " << step.reduced << " x " << step.inner);
    const auto actual = one.run<float>(gpu(), step), expected = one.run<float>(cpu(), step);
    for (size_t i = 0; i < actual.size(); ++i) {
      // A mean is a product with a rounded reciprocal.
      const float allowed = step.mode == Mode::mean ? 2e-7f * std::abs(expected[i]) : 0.0f;
      const bool isSame = std::isnan(expected[i])   ? std::isnan(actual[i])
                          : std::isinf(expected[i]) ? actual[i] == expected[i]
                                                    : std::abs(actual[i] - expected[i]) <= allowed;
      REQUIRE_MESSAGE(isSame, "element " << i << " is " << actual[i] << ", not " << expected[i]);
    }
  }
}

TEST_CASE("fuzzed rows of halves, normalised") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    const FloatType type = anyHalf(random);
    NormalizeStep step;
    step.type = type;
    step.rows = random.pick({1, 2, 7, 100, 333});
    step.count = step.channels = random.pick({8, 16, 96, 192, 264, 768, 1024, 1032, 3000});
    OneStep one(random);
    one.align();
    step.input = one.input(halvesOf(type, random.reals(step.rows * step.count)));
    if (random.maybe()) step.scale = one.input(random.reals(step.count));
    if (random.maybe()) step.shift = one.input(random.reals(step.count));
    step.output = one.output<uint16_t>(step.rows * step.count);
    INFO("round " << round << ": " << step.rows << " x " << step.count);
    // Near 0, a sum and a shift may take all of a result away but its rounding.
    requireClose(one, step, type, 1, 1e-5);
  }
}

TEST_CASE("fuzzed squeeze-and-excitation of halves") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    const FloatType type = anyHalf(random);
    SqueezeExciteStep step;
    step.type = type;
    step.n = random.pick({1, 1, 2, 7, 40});
    step.channels = random.pick({1, 3, 8, 24, 44, 96, 240, 672, 1152, 4096});
    step.area = random.pick({1, 2, 9, 49, 196, 1000});
    // The CPU's twin takes a second for much more.
    constexpr int64_t kMostElements = 2'000'000;
    if (step.n * step.channels * step.area > kMostElements) step.n = 1, step.area = 9;
    // A few rounds are of large maps, where blocks of a cluster share an image.
    if (round % 20 == 0) step.n = 1, step.channels = 32, step.area = 112 * 112;
    step.hidden = random.pick({1, 4, 8, 20, 48, 300});
    step.inputPitch = step.channels + random.pick({0, 0, 8, 3});
    step.outputPitch = step.channels + random.pick({0, 0, 16, 1});
    constexpr ActivationKind kHidden[] = {ActivationKind::silu, ActivationKind::relu, ActivationKind::none};
    step.hiddenActivation.kind = kHidden[random.from(0, 2)];
    step.gateActivation.kind = random.maybe() ? ActivationKind::sigmoid : ActivationKind::none;
    if (random.maybe()) step.gateActivation = {ActivationKind::clip, 0.0f, 1.0f};
    OneStep one(random);
    if (random.maybe()) one.align();
    const int64_t pixels = step.n * step.area;
    step.input = one.input(halvesOf(type, random.reals(pixels * step.inputPitch)));
    const auto scaled = [&](int64_t count, int64_t summed) {
      std::vector<float> reals = random.reals(count);
      for (float& real : reals) real /= std::sqrt(static_cast<float>(summed));
      return one.input(reals);
    };
    step.hiddenWeight = scaled(step.hidden * step.channels, step.channels);
    step.gateWeight = scaled(step.hidden * step.channels, step.hidden);
    if (random.maybe()) step.hiddenBias = one.input(random.reals(step.hidden));
    if (random.maybe()) step.gateBias = one.input(random.reals(step.channels));
    step.output = one.output<uint16_t>(pixels * step.outputPitch);
    INFO("round " << round << ": " << step.n << " x " << step.channels << " x " << step.area << ", " << step.hidden);
    requireClose(one, step, type, 1, 1e-5);
  }
}

TEST_CASE("fuzzed resizes of halves") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    const FloatType type = anyHalf(random);
    InterpolateStep step;
    step.type = type;
    step.outer = random.from(1, 4), step.axis = random.from(1, 20), step.count = random.from(1, 40);
    step.inner = random.pick({1, 3, 8, 10, 64, 120}), step.taps = random.from(1, 4);
    for (int64_t i = 0; i < step.count * step.taps; ++i) {
      step.positions.push_back(random.from(0, step.axis - 1));
      step.weights.push_back(static_cast<double>(random.from(0, 8)) / 8);
    }
    OneStep one(random);
    if (random.maybe()) one.align();
    step.input = one.input(anyHalves(random, type, step.outer * step.axis * step.inner));
    step.output = one.output<uint16_t>(step.outer * step.count * step.inner);
    INFO("round " << round << ": " << step.outer << " x " << step.axis << " x " << step.inner);
    requireClose(one, step, type, 2);
  }
}

TEST_CASE("a format step rounds to halves and back, with pixels apart") {
  Random random;
  for (int round = 0; round < rounds(200); ++round) {
    const FloatType type = anyHalf(random);
    const Pixels pixels(random);
    FormatStep step;
    step.n = random.from(1, 3), step.channels = pixels.channels, step.area = random.pick({1, 3, 49, 196, 1000});
    OneStep one(random);
    const int64_t span = pixels.span(step.n * step.area), count = step.n * step.channels * step.area;
    INFO("round " << round << ": " << step.n << " x " << step.channels << " x " << step.area);
    if (random.maybe()) {
      step.to = pixels.format(type);
      std::vector<float> values = random.reals(count);
      if (round % 3 == 0) random.putSpecials(values);
      step.input = one.input(values);
      step.output = one.output<uint16_t>(span);
      requireClose(one, step, type, 0);
    } else {
      step.from = pixels.format(type);
      step.input = one.input(anyHalves(random, type, span));
      step.output = one.output<float>(count);
      const auto actual = one.run<float>(gpu(), step), expected = one.run<float>(cpu(), step);
      for (size_t i = 0; i < actual.size(); ++i) {
        REQUIRE((std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i]));
      }
    }
  }
}
