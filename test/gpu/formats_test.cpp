#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cuda/formats/converted.h"
#include "support/formatted.h"
#include "support/one_step.h"
#include "support/runs.h"

using namespace warpconv;
using cuda::FormatExtents;
using test::Random;
using test::rounds;
using test::size;
using test::TensorExtents;

namespace {

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
    std::vector<uint8_t> all(shift_, test::kUntouched);
    all.insert(all.end(), bytes.begin(), bytes.end());
    return all;
  }

  const size_t shift_;
  const test::DeviceArray<uint8_t> array_;
};

/** Converts and compares with a loop on the CPU, bytes between and behind the pixels included. */
void checkConversion(Random& random, const FormatExtents& extents) {
  const TensorExtents x{extents.n, extents.channels, extents.area};
  const TensorFormat from = test::anyFormat(random, x.channels), to = test::anyFormat(random, x.channels);
  const std::vector<uint8_t> given = test::laidOut(from, x, anyValues(random, x.elements()));
  const std::vector<uint8_t> expected = test::laidOut(to, x, test::valuesOf(from, x, given));
  const Shifted source(given, random.pick({0, 0, 0, 1, 4}) * widthOf(from.type));
  const Shifted target(test::untouched(to, x), random.pick({0, 0, 0, 1, 4}) * widthOf(to.type));
  const Status status = cuda::convertFormat(extents, from, source.data(), to, target.data(), nullptr);
  if (!status.isOk()) FAIL(status.message());
  test::check(cudaStreamSynchronize(nullptr));
  INFO(x.n << " x " << x.channels << " x " << x.area << ", " << test::shown(from) << " to " << test::shown(to));
  test::requireSameTensor(to, x, target.toHost(), expected, true);
}

/** Of integers, which come out exactly. */
void checkConvolution(const cuda::GpuAlgorithm& algorithm, const cuda::GpuRequest& request, const test::GpuCase& one) {
  const ConvProblem& problem = request.problem;
  const ConvFormat& format = problem.format;
  const TensorExtents inputs{problem.n, problem.c, problem.h * problem.w};
  const TensorExtents outputs{problem.n, problem.k, problem.p * problem.q};
  INFO(std::string(algorithm.name) << ", " << describe(problem) << ", " << test::shown(format.input) << " to "
                                   << test::shown(format.output));
  const test::GpuReference reference = test::referenceOnGpu(one);
  test::check(cudaDeviceSynchronize());
  Weights forms(nullptr, problem.k, problem.filterSize());
  cuda::Tables tables(test::queue());
  auto prepared =
      cuda::prepareConverted(algorithm, request, {forms, one.bias.data(), test::queue(), tables, one.weight.data()});
  if (!prepared.isOk()) FAIL(prepared.status().message());

  const bool hasResidual = one.residual.size() > 0;
  const Shifted input(test::laidOut(format.input, inputs, one.input.toHost()), 0);
  const Shifted residual(
      hasResidual ? test::laidOut(format.residual, outputs, one.residual.toHost()) : std::vector<uint8_t>{}, 0);
  const Shifted output(test::untouched(format.output, outputs), 0);
  const test::DeviceArray<char> workspace(size(cuda::estimateOf(algorithm, request).workspaceBytes));
  const Status status = prepared.value()->enqueue(
      {input.data(), hasResidual ? residual.data() : nullptr, output.data()}, workspace.data(), nullptr);
  if (!status.isOk()) FAIL(status.message());
  test::check(cudaStreamSynchronize(nullptr));
  test::requireSameTensor(format.output, outputs, output.toHost(),
                          test::laidOut(format.output, outputs, reference.output.toHost()), true);
}

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
  for (const cuda::GpuAlgorithm& algorithm : test::algorithmsUnderTest(true)) {
    // Few of these problems are depthwise, or of images to halves: these algorithms have tests of their own.
    const std::string name = algorithm.name;
    if (name == "depthwise" || name == "image") continue;
    for (int taken = 0, tried = 0; taken < rounds(60); ++tried) {
      REQUIRE_MESSAGE(tried < 6000, name << " refuses nearly every problem");
      ConvProblem problem = test::randomProblem(engine, 2e6);
      const test::GpuCase one = test::makeCase(problem, test::Values::integers, random.maybe(), random.maybe(), engine);
      problem.format = {test::anyFormat(random, problem.c), test::anyFormat(random, problem.k),
                        test::anyFormat(random, problem.k)};
      const cuda::GpuRequest request = test::requestFor(problem, "");
      if (cuda::refusalOf(algorithm, request)) continue;
      ++taken;
      checkConvolution(algorithm, request, one);
    }
  }
}
