#include "cpu/formats/formats.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "cpu/cpu_backend.h"
#include "support/formatted.h"
#include "support/reference.h"
#include "support/rounds.h"

using namespace warpconv;
using test::TensorExtents;

namespace {

/** Seeded anew each time, by what WARPCONV_FUZZ_SEED says where it is set. */
class Random {
 public:
  Random() : seed_(chooseSeed()), engine(seed_) { MESSAGE("WARPCONV_FUZZ_SEED=" << seed_); }

  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine() % static_cast<uint64_t>(most - least + 1));
  }
  bool maybe() { return engine() % 2 == 0; }

 private:
  static unsigned chooseSeed() {
    const char* given = std::getenv("WARPCONV_FUZZ_SEED");
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  }

  const unsigned seed_;

 public:
  std::mt19937 engine;
};

std::shared_ptr<Executor> executor() {
  static const std::shared_ptr<Executor> made = std::make_shared<Executor>(2);
  return made;
}

ConvProblem formatted(ConvRequest request, const ConvFormat& format) {
  request.format = format;
  return makeConvProblem(request).value();
}

}  // namespace

TEST_CASE("conversions from and to every format, as a loop that rounds from the definitions") {
  Random random;
  for (int round = 0; round < test::played(300); ++round) {
    // Some large enough for several threads, and for more than one tile
    const TensorExtents x{random.from(1, 3), random.from(1, 40), random.maybe() ? random.from(1, 70) : 3000};
    const TensorFormat format = test::anyFormat(random, x.channels);
    INFO(x.n << " x " << x.channels << " x " << x.area << ", " << test::shown(format));
    std::vector<float> values(static_cast<size_t>(x.elements()));
    test::fillWithReals(values, random.engine);
    const float strange[] = {NAN, INFINITY, -INFINITY, 65519.0f, 65520.0f, 1e-8f, -0.0f};
    for (const float one : strange) values[static_cast<size_t>(random.from(0, x.elements() - 1))] = one;

    std::vector<uint8_t> made = test::untouched(format, x);
    const RunContext context{executor().get()};
    fromPlain(format, x.n, x.channels, x.area, values.data(), made.data(), context);
    const std::vector<uint8_t> expected = test::laidOut(format, x, values);
    test::requireSameTensor(format, x, made, expected);
    std::vector<float> back(values.size(), 0);
    toPlain(format, x.n, x.channels, x.area, made.data(), back.data(), context);
    const std::vector<double> exact = test::valuesOf(format, x, expected);
    for (size_t i = 0; i < back.size(); ++i) {
      // Not by REQUIRE, which took longer than the conversions.
      const bool isSame = std::isnan(exact[i]) ? std::isnan(back[i]) : static_cast<double>(back[i]) == exact[i];
      if (!isSame) FAIL("element " << i << " is " << back[i] << ", not " << exact[i]);
    }
  }
}

TEST_CASE("every algorithm in every format: integers as the definition has them, rounded once") {
  Random random;
  CpuBackend backend(*executor(), cpuInfo());
  for (int round = 0; round < test::played(150); ++round) {
    const ConvRequest request = test::randomRequest(random.engine, 2e5);
    const ConvProblem plain = makeConvProblem(request).value();
    const TensorExtents inputs{plain.n, plain.c, plain.h * plain.w}, outputs{plain.n, plain.k, plain.p * plain.q};
    const ConvFormat format{test::anyFormat(random, plain.c), test::anyFormat(random, plain.k),
                            test::anyFormat(random, plain.k)};
    const PlanProblem asked{formatted(request, format), {}, {}};
    const bool hasResidual = random.maybe();
    test::Tensors tensors{std::vector<float>(static_cast<size_t>(inputs.elements())),
                          std::vector<float>(static_cast<size_t>(plain.weightSize())),
                          {},
                          std::vector<float>(static_cast<size_t>(hasResidual ? outputs.elements() : 0))};
    for (auto* const values : {&tensors.input, &tensors.weight, &tensors.residual}) {
      test::fillWithIntegers(*values, random.engine);
    }
    const test::Reference reference =
        test::convolveInDouble(request, plain.outputDims(), plain.padding.top, plain.padding.left, tensors);
    const std::vector<uint8_t> expected = test::laidOut(format.output, outputs, reference.output);
    std::vector<uint8_t> input = test::laidOut(format.input, inputs, tensors.input);
    std::vector<uint8_t> residual;
    if (hasResidual) residual = test::laidOut(format.residual, outputs, tensors.residual);
    for (const Candidate& candidate : backend.candidates(asked)) {
      if (!candidate.accepts()) continue;
      INFO(candidate.algorithm << ", " << describe(plain) << ", " << test::shown(format.input) << ", "
                               << test::shown(format.residual) << " to " << test::shown(format.output));
      const auto prepared = backend.prepare(candidate.algorithm, asked, tensors.weight.data(), nullptr);
      REQUIRE(prepared.isOk());
      std::vector<uint8_t> output = test::untouched(format.output, outputs);
      const Operands operands{{input.data(), {}}, {hasResidual ? residual.data() : nullptr, {}}, {output.data(), {}}};
      REQUIRE(prepared.value()->run(operands, nullptr).isOk());
      test::requireSameTensor(format.output, outputs, output, expected);
    }
  }
}

TEST_CASE("conversions take scratch memory and time, and stop when they are asked to") {
  ConvRequest request;
  request.inputDims = {2, 3, 10, 10};
  request.weightDims = {8, 3, 3, 3};
  const TensorFormat half{FloatType::float16, Layout::nhwc, 0};
  CpuBackend backend(*executor(), cpuInfo());
  const PlanProblem plain{makeConvProblem(request).value(), {}, {}};
  const PlanProblem halves{formatted(request, {half, half, half}), {}, {}};
  const std::vector<Candidate> before = backend.candidates(plain), after = backend.candidates(halves);
  for (size_t i = 0; i < before.size(); ++i) {
    INFO(before[i].algorithm);
    REQUIRE(after[i].refusal == before[i].refusal);
    if (!before[i].accepts()) continue;
    CHECK(after[i].estimate.workspaceBytes == before[i].estimate.workspaceBytes + 4 * (600 + 2 * 1024));
    CHECK(after[i].estimate.milliseconds > before[i].estimate.milliseconds);
  }
  std::vector<uint16_t> input(600), output(1024);
  const std::vector<float> weight(216);
  const auto prepared = backend.prepare("direct", halves, weight.data(), nullptr);
  Cancellation cancellation;
  cancellation.request();
  const Operands operands{{input.data(), {}}, {}, {output.data(), {}}};
  CHECK(prepared.value()->run(operands, &cancellation).code() == StatusCode::aborted);
}

TEST_CASE("a pitch is checked") {
  ConvRequest request;
  request.inputDims = {1, 3, 4, 5};
  request.weightDims = {2, 3, 1, 1};
  const auto legal = [&](const TensorFormat& format) {
    ConvRequest one = request;
    one.format.input = format;
    return makeConvProblem(one).isOk();
  };
  CHECK(legal({FloatType::float16, Layout::nhwc, 8}));
  CHECK(legal({FloatType::float16, Layout::nhwc, 3}));
  CHECK_FALSE(legal({FloatType::float16, Layout::nhwc, 2}));
  CHECK_FALSE(legal({FloatType::float16, Layout::nhwc, -1}));
  CHECK_FALSE(legal({FloatType::float16, Layout::nchw, 8}));
  CHECK_FALSE(legal({FloatType::float16, Layout::nhwc, kMaxElements}));
}
