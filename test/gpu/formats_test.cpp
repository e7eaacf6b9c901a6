#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cuda/formats/converted.h"
#include "support/one_step.h"
#include "support/runs.h"
#include "support/typed_elements.h"

using namespace warpconv;
using cuda::FormatExtents;
using test::BFloat16;
using test::Float16;
using test::Random;
using test::rounds;
using test::size;

namespace {

/** What no test writes: two bytes of it are a NaN of neither kind, four a NaN of float32. */
constexpr uint8_t kUntouched = 0xff;

template <typename T>
T copied(const uint8_t* from) {
  T element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

double valueAt(FloatType type, const uint8_t* from) {
  if (type == FloatType::float16) return test::valueOfHalf(copied<Float16>(from));
  return type == FloatType::bfloat16 ? test::valueOfHalf(copied<BFloat16>(from)) : copied<float>(from);
}

void put(FloatType type, double value, uint8_t* to) {
  if (type == FloatType::float16) {
    const auto half = test::nearestHalf<Float16>(value);
    std::memcpy(to, &half, sizeof half);
  } else if (type == FloatType::bfloat16) {
    const auto half = test::nearestHalf<BFloat16>(value);
    std::memcpy(to, &half, sizeof half);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(to, &single, sizeof single);
  }
}

/** Written from the definitions, so that a wrong stride in the library shows. */
int64_t placeOf(const TensorFormat& format, const FormatExtents& x, int64_t i) {
  const int64_t pixel = i % x.area, channel = i / x.area % x.channels, n = i / (x.area * x.channels);
  if (format.layout == Layout::nchw) return i;
  return (n * x.area + pixel) * (format.pitch == 0 ? x.channels : format.pitch) + channel;
}

/** Bytes of a tensor's memory, in which only its elements are written, given in the order of NCHW. */
std::vector<uint8_t> laidOut(const TensorFormat& format, const FormatExtents& x, const std::vector<double>& values) {
  const int64_t width = widthOf(format.type);
  std::vector<uint8_t> bytes(size(spanOf(format, x.n, x.channels, x.area) * width), kUntouched);
  for (int64_t i = 0; i < x.n * x.channels * x.area; ++i) {
    put(format.type, values[size(i)], bytes.data() + placeOf(format, x, i) * width);
  }
  return bytes;
}

bool isSameElement(FloatType type, const uint8_t* a, const uint8_t* b) {
  if (std::isnan(valueAt(type, a)) && std::isnan(valueAt(type, b))) return true;
  return std::memcmp(a, b, size(widthOf(type))) == 0;
}

/** Whether bytes that differ from what is expected are zeros where those may be written. */
void requireSameTensor(const TensorFormat& format, const FormatExtents& x, const std::vector<uint8_t>& made,
                       const std::vector<uint8_t>& expected) {
  REQUIRE(made.size() == expected.size());
  const int64_t width = widthOf(format.type);
  const bool mayPad = format.layout == Layout::nhwc && format.pitch == (x.channels + 7) / 8 * 8;
  for (int64_t i = 0; i < static_cast<int64_t>(made.size()) / width; ++i) {
    if (isSameElement(format.type, &made[size(i * width)], &expected[size(i * width)])) continue;
    const bool isPadding = mayPad && i % format.pitch >= x.channels;
    INFO("element " << i);
    REQUIRE(isPadding);
    REQUIRE(valueAt(format.type, &made[size(i * width)]) == 0);
  }
}

FloatType anyType(Random& random) {
  return std::vector{FloatType::float32, FloatType::float16, FloatType::bfloat16}[size(random.from(0, 2))];
}

TensorFormat anyFormat(Random& random, int64_t channels) {
  TensorFormat format{anyType(random), random.maybe() ? Layout::nhwc : Layout::nchw};
  if (format.layout == Layout::nhwc && random.maybe()) {
    format.pitch = random.maybe() ? (channels + 7) / 8 * 8 : channels + random.pick({0, 1, 3, 4, 16});
  }
  return format;
}

/** Of all magnitudes that halves have, some beyond them, and NaN. */
std::vector<double> anyValues(Random& random, int64_t count) {
  std::vector<double> values(size(count));
  for (double& value : values) {
    const auto unit = static_cast<float>(std::ldexp(static_cast<double>(random.from(-(1 << 24), 1 << 24)), -24));
    value = random.from(0, 3) == 0 ? static_cast<double>(std::ldexp(unit, static_cast<int>(random.from(-40, 20))))
                                   : static_cast<double>(unit);
  }
  const double strange[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            65519.0,
                            65520.0,
                            -0.0};
  for (int i = 0; i < 6; ++i) values[size(random.from(0, count - 1))] = strange[i];
  return values;
}

std::string shown(const TensorFormat& format) {
  return std::to_string(static_cast<int>(format.type)) + (format.layout == Layout::nhwc ? " nhwc " : " nchw ") +
         std::to_string(format.pitch);
}

/** Device memory for a tensor that begins `shift` elements behind an aligned address. */
class Shifted {
 public:
  Shifted(const std::vector<uint8_t>& bytes, int64_t shift) : shift_(size(shift)), array_(padded(bytes)) {}

  void* data() const { return array_.data() + shift_; }
  std::vector<uint8_t> toHost() const {
    const std::vector<uint8_t> all = array_.toHost();
    return {all.begin() + static_cast<ptrdiff_t>(shift_), all.end()};
  }

 private:
  std::vector<uint8_t> padded(const std::vector<uint8_t>& bytes) const {
    std::vector<uint8_t> all(shift_, kUntouched);
    all.insert(all.end(), bytes.begin(), bytes.end());
    return all;
  }

  const size_t shift_;
  const test::DeviceArray<uint8_t> array_;
};

/** Converts and compares with a loop on the CPU, bytes between and behind the pixels included. */
void checkConversion(Random& random, const FormatExtents& x) {
  const TensorFormat from = anyFormat(random, x.channels), to = anyFormat(random, x.channels);
  const int64_t count = x.n * x.channels * x.area;
  const std::vector<uint8_t> given = laidOut(from, x, anyValues(random, count));
  std::vector<double> values(size(count));
  for (int64_t i = 0; i < count; ++i) {
    values[size(i)] = valueAt(from.type, &given[size(placeOf(from, x, i) * widthOf(from.type))]);
  }
  const Shifted source(given, random.pick({0, 0, 0, 1, 4}) * widthOf(from.type));
  const Shifted target(std::vector<uint8_t>(laidOut(to, x, values).size(), kUntouched),
                       random.pick({0, 0, 0, 1, 4}) * widthOf(to.type));
  const Status status = cuda::convertFormat(x, from, source.data(), to, target.data(), nullptr);
  if (!status.isOk()) FAIL(status.message());
  test::check(cudaStreamSynchronize(nullptr));
  INFO(x.n << " x " << x.channels << " x " << x.area << ", " << shown(from) << " to " << shown(to));
  requireSameTensor(to, x, target.toHost(), laidOut(to, x, values));
}

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("conversions between every two formats, of any extents, pitch and alignment, as a loop on the CPU") {
  test::check(cudaSetDevice(0));
  Random random;
  for (int round = 0; round < rounds(600); ++round) {
    checkConversion(random,
                    {random.pick({1, 2, 3}), random.pick({1, 2, 3, 4, 7, 8, 9, 16, 20, 33, 63, 64, 65, 96, 130}),
                     random.pick({1, 2, 4, 7, 8, 49, 63, 64, 65, 100, 196, 300, 3136})});
  }
}

TEST_CASE("images and feature maps of usual extents are converted, too") {
  test::check(cudaSetDevice(0));
  Random random;
  for (const FormatExtents& x :
       {FormatExtents{8, 3, 224 * 224}, FormatExtents{2, 64, 112 * 112}, FormatExtents{3, 2048, 49},
        FormatExtents{70'000, 3, 4}, FormatExtents{1, 256, 56 * 56}}) {
    for (int round = 0; round < rounds(4); ++round) checkConversion(random, x);
  }
}

TEST_CASE("every algorithm in every format: integers as the definition has them, rounded once") {
  Random random;
  std::mt19937 engine(test::fuzzSeed());
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest()) {
    for (int taken = 0, tried = 0; taken < rounds(60); ++tried) {
      REQUIRE_MESSAGE(tried < 6000, std::string(algorithm.name) << " refuses nearly every problem");
      ConvProblem problem = test::randomProblem(engine, 2e6);
      const FormatExtents inputs{problem.n, problem.c, problem.h * problem.w};
      const FormatExtents outputs{problem.n, problem.k, problem.p * problem.q};
      const test::GpuCase one = test::makeCase(problem, test::Values::integers, random.maybe(), random.maybe(), engine);
      const test::GpuReference reference = test::referenceOnGpu(one);
      problem.format = {anyFormat(random, problem.c), anyFormat(random, problem.k), anyFormat(random, problem.k)};
      const cuda::GpuRequest request = test::requestFor(problem, "");
      if (cuda::refusalOf(algorithm, request)) continue;
      ++taken;
      INFO(std::string(algorithm.name) << ", " << describe(problem) << ", " << shown(problem.format.input) << " to "
                                       << shown(problem.format.output));
      test::check(cudaDeviceSynchronize());
      Weights forms(nullptr, problem.k, problem.filterSize());
      cuda::Tables tables(test::queue());
      auto prepared = cuda::prepareConverted(algorithm, request,
                                             {forms, one.bias.data(), test::queue(), tables, one.weight.data()});
      if (!prepared.isOk()) FAIL(prepared.status().message());

      const Shifted input(laidOut(problem.format.input, inputs, doubles(one.input.toHost())), 0);
      const bool hasResidual = one.residual.size() > 0;
      const Shifted residual(hasResidual ? laidOut(problem.format.residual, outputs, doubles(one.residual.toHost()))
                                         : std::vector<uint8_t>{},
                             0);
      const std::vector<uint8_t> expected = laidOut(problem.format.output, outputs, reference.output.toHost());
      const Shifted output(std::vector<uint8_t>(expected.size(), kUntouched), 0);
      const test::DeviceArray<char> workspace(size(cuda::estimateOf(algorithm, request).workspaceBytes));
      const Status status = prepared.value()->enqueue(
          {input.data(), hasResidual ? residual.data() : nullptr, output.data()}, workspace.data(), nullptr);
      if (!status.isOk()) FAIL(status.message());
      test::check(cudaStreamSynchronize(nullptr));
      requireSameTensor(problem.format.output, outputs, output.toHost(), expected);
    }
  }
}
