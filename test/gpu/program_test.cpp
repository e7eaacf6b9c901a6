#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "cpu/cpu_backend.h"
#include "gpu/gpu.h"
#include "support/reference.h"
#include "support/runs.h"

// Steps are given what a test is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace warpconv;
using namespace warpconv::program;

namespace {

using Space = Buffer::Space;
using Floats = std::vector<float>;

std::shared_ptr<Gpu> openedGpu() {
  auto opened = openGpu(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return opened.value();
}

std::shared_ptr<const PreparedProgram> prepared(Backend& backend, ProgramSpec spec) {
  auto made = backend.prepareProgram(std::move(spec));
  if (!made.isOk()) FAIL(made.status().message());
  return made.value();
}

constexpr int64_t kImage = 2 * 8 * 14 * 14, kClasses = 10;

/**
 * A small network of integers: two convolutions of 8 maps with a ReLU and a sum around them, a maximum over windows, a
 * mean as a sum, and a matrix product. Its scratch memory is shared by tensors that do not live at once.
 */
class Network {
 public:
  explicit Network(std::mt19937& random) : weights_(4) {
    const size_t sizes[] = {8 * 8 * 3 * 3, 8, 8 * 8, 8 * kClasses};
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i].resize(sizes[i]);
      test::fillWithIntegers(weights_[i], random);
    }
  }

  /** `algorithm` of both convolutions. */
  ProgramSpec spec(const std::string& algorithm) const {
    ConvRequest request;
    request.inputDims = {2, 8, 14, 14};
    request.weightDims = {8, 8, 3, 3};
    request.padding = {1, 1, 1, 1};
    ConvolutionStep wide{makeConvProblem(request).value(), makeActivation("relu", {}).value(), {algorithm}};
    wide.input = input(), wide.weight = constant(0), wide.bias = constant(1), wide.output = arena(0);
    request.weightDims = {8, 8, 1, 1};
    request.padding = {};
    ConvolutionStep narrow{makeConvProblem(request).value(), {}, {algorithm}};
    narrow.input = arena(0), narrow.weight = constant(2), narrow.residual = input(), narrow.output = arena(kImage);
    // clip(x - 1) + y, which overwrites x.
    ElementwiseStep chain{.extents = {kImage}, .strides = {{1}, {1}}};
    chain.operands = {arena(kImage), arena(0)};
    chain.code = {{ElementwiseStep::Operation::affine, 0, 0, 1, -1},
                  {ElementwiseStep::Operation::clip, 2, 0, -9, 9},
                  {ElementwiseStep::Operation::add, 3, 1, 0, 0}};
    chain.output = arena(kImage);
    PoolStep pool{.planes = 16, .h = 14, .w = 14, .p = 7, .q = 7, .r = 2, .s = 2, .stride = {2, 2}};
    pool.input = arena(kImage), pool.output = arena(0);
    ReduceStep sum{.mode = ReduceStep::Mode::sum, .outer = 16, .reduced = 49};
    sum.input = arena(0), sum.output = arena(kImage);
    MatmulStep product{.m = 2, .n = kClasses, .k = 8, .leftStrides = {8, 1}, .rightStrides = {kClasses, 1}};
    product.left = arena(kImage), product.right = constant(3), product.output = {Space::output, 0, 0};
    ProgramSpec spec;
    spec.steps = {wide, narrow, chain, pool, sum, product};
    for (const Floats& weight : weights_) {
      spec.constants.push_back(weight.data());
      spec.constantBytes.push_back(bytesOf(weight));
    }
    spec.arenaBytes = 2 * kImage * 4;
    spec.inputBytes = {kImage * 4};
    spec.outputBytes = {2 * kClasses * 4};
    return spec;
  }

  static Floats anyInput(std::mt19937& random) {
    Floats values(kImage);
    test::fillWithIntegers(values, random);
    return values;
  }

 private:
  static Buffer input() { return {Space::input, 0, 0}; }
  static Buffer constant(int64_t index) { return {Space::constant, index, 0}; }
  static Buffer arena(int64_t element) { return {Space::arena, 0, element * 4}; }
  static int64_t bytesOf(const Floats& values) { return static_cast<int64_t>(values.size() * sizeof(float)); }

  std::vector<Floats> weights_;
};

Status run(const PreparedProgram& program, const Floats& input, Floats& output,
           const Cancellation* cancellation = nullptr, std::vector<double>* milliseconds = nullptr) {
  const void* const inputs[] = {input.data()};
  void* const outputs[] = {output.data()};
  return program.run({inputs, outputs}, cancellation, milliseconds);
}

Floats outputOf(const PreparedProgram& program, const Floats& input) {
  Floats output(2 * kClasses);
  const Status status = run(program, input, output);
  if (!status.isOk()) FAIL(status.message());
  return output;
}

/** The network on the GPU, and its twin on one thread. */
struct Twins {
  std::mt19937 random{test::fuzzSeed()};
  Network network{random};
  Executor executor{1};
  CpuBackend cpu{executor, usableCpu().value()};
  std::shared_ptr<Gpu> gpu = openedGpu();
  std::shared_ptr<const PreparedProgram> expected = prepared(cpu, network.spec("auto"));
};

}  // namespace

TEST_CASE("a resident program gives what its twin on the CPU gives, run after run, by every algorithm") {
  Twins twins;
  for (const std::string algorithm : {"auto", "direct", "im2win", "im2col"}) {
    INFO(algorithm);
    const auto program = prepared(*twins.gpu, twins.network.spec(algorithm));
    for (int round = 0; round < 6; ++round) {
      const Floats input = Network::anyInput(twins.random);
      const Floats output = outputOf(*program, input);
      REQUIRE(output == outputOf(*twins.expected, input));
      // Every other run repeats one: bit by bit the same, as a graph, too.
      REQUIRE(output == outputOf(*program, input));
    }
  }
}

TEST_CASE("a resident program says what was chosen for its convolutions, and what it holds") {
  Twins twins;
  const int64_t before = cuda::Device::bytesInUse(0);
  {
    const auto program = prepared(*twins.gpu, twins.network.spec("im2win"));
    const std::vector<Candidate>& choices = program->choices();
    REQUIRE(choices.size() == 6);
    CHECK(choices[0].algorithm == "im2win");
    CHECK(choices[1].algorithm == "im2win");
    CHECK(choices[2].algorithm.empty());
    CHECK(program->bytes() == cuda::Device::bytesInUse(0) - before);
    outputOf(*program, Network::anyInput(twins.random));
    CHECK(program->bytes() == cuda::Device::bytesInUse(0) - before);
  }
  CHECK(cuda::Device::bytesInUse(0) == before);
}

TEST_CASE("runs of a resident program overlap") {
  Twins twins;
  const auto program = prepared(*twins.gpu, twins.network.spec("auto"));
  constexpr int kThreads = 5, kRuns = 40;
  std::vector<Floats> inputs, expected;
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(Network::anyInput(twins.random));
    expected.push_back(outputOf(*twins.expected, inputs.back()));
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRuns; ++round) {
        Floats output(2 * kClasses);
        std::vector<double> milliseconds;
        // One of the threads measures all the while.
        const Status status =
            run(*program, inputs[static_cast<size_t>(i)], output, nullptr, i == 0 ? &milliseconds : nullptr);
        if (!status.isOk() || output != expected[static_cast<size_t>(i)]) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a resident program is measured step by step") {
  Twins twins;
  const auto program = prepared(*twins.gpu, twins.network.spec("auto"));
  const Floats input = Network::anyInput(twins.random);
  Floats output(2 * kClasses);
  std::vector<double> milliseconds;
  REQUIRE(run(*program, input, output, nullptr, &milliseconds).isOk());
  CHECK(output == outputOf(*twins.expected, input));
  REQUIRE(milliseconds.size() == 6);
  for (const double taken : milliseconds) CHECK(taken >= 0);
}

TEST_CASE("a run that was cancelled before its kernels says so, and later ones go on") {
  Twins twins;
  const auto program = prepared(*twins.gpu, twins.network.spec("auto"));
  const Floats input = Network::anyInput(twins.random);
  Floats output(2 * kClasses);
  Cancellation cancellation;
  cancellation.request();
  CHECK(run(*program, input, output, &cancellation).code() == StatusCode::aborted);
  CHECK(outputOf(*program, input) == outputOf(*twins.expected, input));
}

TEST_CASE("a resident program convolves with weights that a run brings, by the direct algorithm") {
  Twins twins;
  ConvRequest request;
  request.inputDims = {1, 4, 9, 9};
  request.weightDims = {5, 4, 3, 3};
  request.padding = {1, 1, 1, 1};
  const auto specFor = [&](const std::string& algorithm) {
    ConvolutionStep step{makeConvProblem(request).value(), {}, {algorithm}};
    step.input = {Space::input, 0, 0}, step.weight = {Space::input, 1, 0}, step.bias = {Space::input, 2, 0};
    step.output = {Space::output, 0, 0};
    ProgramSpec spec;
    spec.steps = {step};
    spec.inputBytes = {4 * 81 * 4, 5 * 36 * 4, 5 * 4};
    spec.outputBytes = {5 * 81 * 4};
    return spec;
  };
  const auto onGpu = prepared(*twins.gpu, specFor("auto")), onCpu = prepared(twins.cpu, specFor("auto"));
  CHECK(onGpu->choices()[0].algorithm == "direct");
  for (int round = 0; round < 4; ++round) {
    Floats input(4 * 81), weight(5 * 36), bias(5), actual(5 * 81), expected(5 * 81);
    for (Floats* values : {&input, &weight, &bias}) test::fillWithIntegers(*values, twins.random);
    const void* const inputs[] = {input.data(), weight.data(), bias.data()};
    void* const actuals[] = {actual.data()};
    void* const expecteds[] = {expected.data()};
    REQUIRE(onGpu->run({inputs, actuals}, nullptr, nullptr).isOk());
    REQUIRE(onCpu->run({inputs, expecteds}, nullptr, nullptr).isOk());
    CHECK(actual == expected);
  }
  const auto refused = twins.gpu->prepareProgram(specFor("im2win"));
  REQUIRE_FALSE(refused.isOk());
  CHECK(refused.status().code() == StatusCode::unsupported);
}

TEST_CASE("wrong indices fail the run that brings them, constant ones every run") {
  Twins twins;
  const std::vector<int64_t> wrong{0, 7};
  const std::vector<int64_t> right{2, -3};
  const auto specFor = [&](Space indices) {
    GatherStep step{.axis = 3, .count = 2};
    step.input = {Space::input, 0, 0}, step.output = {Space::output, 0, 0};
    step.indices = {indices, indices == Space::input ? 1 : 0, 0};
    ProgramSpec spec;
    spec.steps = {step};
    spec.inputBytes = {12};
    if (indices == Space::input) spec.inputBytes.push_back(16);
    if (indices == Space::constant) spec.constants = {wrong.data()}, spec.constantBytes = {16};
    spec.outputBytes = {8};
    return spec;
  };
  const Floats input{10, 20, 30};
  Floats output(2);
  void* const outputs[] = {output.data()};
  const auto program = prepared(*twins.gpu, specFor(Space::input));
  for (int round = 0; round < 4; ++round) {
    const void* const bad[] = {input.data(), wrong.data()};
    CHECK(program->run({bad, outputs}, nullptr, nullptr).code() == StatusCode::invalidArgument);
    const void* const good[] = {input.data(), right.data()};
    REQUIRE(program->run({good, outputs}, nullptr, nullptr).isOk());
    CHECK(output == Floats{30, 10});
  }
  const auto constant = prepared(*twins.gpu, specFor(Space::constant));
  for (int round = 0; round < 3; ++round) {
    CHECK(run(*constant, input, output).code() == StatusCode::invalidArgument);
  }
}

TEST_CASE("programs with tensors of nothing run") {
  Twins twins;
  ElementwiseStep step{.extents = {0, 4}, .strides = {{4, 1}}};
  step.operands = {{Space::input, 0, 0}};
  step.code = {{ElementwiseStep::Operation::exp, 0, 0, 0, 0}};
  step.output = {Space::output, 0, 0};
  ProgramSpec spec;
  spec.steps = {step};
  spec.inputBytes = {0};
  spec.outputBytes = {0};
  const auto program = prepared(*twins.gpu, std::move(spec));
  Floats nothing(1, 7.0f);
  for (int round = 0; round < 3; ++round) CHECK(run(*program, nothing, nothing).isOk());
  CHECK(nothing[0] == 7.0f);
}

TEST_CASE("programs that the device cannot hold, or whose offsets are too large, are refused, and the next one runs") {
  Twins twins;
  ProgramSpec huge = twins.network.spec("auto");
  huge.arenaBytes = int64_t{1} << 45;
  const auto first = twins.gpu->prepareProgram(std::move(huge));
  REQUIRE_FALSE(first.isOk());
  CHECK(first.status().code() == StatusCode::outOfMemory);
  ProgramSpec large;
  large.steps = {FillStep{.count = int64_t{1} << 31}};
  const auto second = twins.gpu->prepareProgram(std::move(large));
  REQUIRE_FALSE(second.isOk());
  CHECK(second.status().code() == StatusCode::unsupported);
  const Floats input = Network::anyInput(twins.random);
  CHECK(outputOf(*prepared(*twins.gpu, twins.network.spec("auto")), input) == outputOf(*twins.expected, input));
}
