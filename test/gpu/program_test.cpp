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
#include "support/small_network.h"

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
  auto made = backend.prepareProgram(std::move(spec), backend.makeStore().value());
  if (!made.isOk()) FAIL(made.status().message());
  return made.value();
}

using test::SmallNetwork;
constexpr int64_t kClasses = SmallNetwork::kClasses;

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
  SmallNetwork network{random};
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
      const Floats input = SmallNetwork::anyInput(twins.random);
      const Floats output = outputOf(*program, input);
      REQUIRE(output == outputOf(*twins.expected, input));
      // Every other run repeats one: bit by bit the same, as a graph, too.
      REQUIRE(output == outputOf(*program, input));
    }
  }
}

TEST_CASE("a resident program leaves outputs on the device, where another environment's programs read them") {
  Twins twins;
  const int64_t before = cuda::Device::bytesInUse(0);
  {
    const auto program = prepared(*twins.gpu, twins.network.spec("auto"));
    // Of a queue of its own: all that orders the two is that a run has ended.
    const std::shared_ptr<Gpu> other = openedGpu();
    const int64_t bytes = 2 * kClasses * static_cast<int64_t>(sizeof(float));
    CopyStep copy;
    copy.bytes = 4, copy.extents = {2 * kClasses}, copy.inputStrides = copy.outputStrides = {1};
    copy.input = {Space::input, 0, 0}, copy.output = {Space::output, 0, 0};
    ProgramSpec spec;
    spec.steps = {copy};
    spec.inputBytes = spec.outputBytes = {bytes};
    const auto reader = prepared(*other, std::move(spec));
    const std::shared_ptr<const GpuMemory> between[] = {twins.gpu->allocate(bytes).value()};
    const void* const nothing[] = {nullptr};
    void* const nowhere[] = {nullptr};
    for (int round = 0; round < 200; ++round) {
      const Floats input = SmallNetwork::anyInput(twins.random);
      const void* const inputs[] = {input.data()};
      std::vector<double> milliseconds;
      // The first launches kernels one by one, later ones a graph; some are measured.
      REQUIRE(program
                  ->run({.inputs = inputs, .outputs = nowhere, .residentOutputs = between}, nullptr,
                        round % 16 == 5 ? &milliseconds : nullptr)
                  .isOk());
      Floats output(2 * kClasses, -1);
      void* const outputs[] = {output.data()};
      REQUIRE(reader->run({.inputs = nothing, .outputs = outputs, .residentInputs = between}, nullptr, nullptr).isOk());
      REQUIRE(output == outputOf(*twins.expected, input));
    }
  }
  CHECK(cuda::Device::bytesInUse(0) == before);
}

TEST_CASE("of a resident program's outputs each goes where it is wanted, or nowhere") {
  Twins twins;
  constexpr int64_t kCount = 1000, kBytes = kCount * 4;
  ProgramSpec spec;
  for (int i = 0; i < 3; ++i) {
    CopyStep copy;
    copy.bytes = 4, copy.extents = {kCount}, copy.inputStrides = copy.outputStrides = {1};
    copy.input = {Space::input, i, 0}, copy.output = {Space::output, i, 0};
    spec.steps.push_back(copy);
    spec.inputBytes.push_back(kBytes), spec.outputBytes.push_back(kBytes);
  }
  const auto program = prepared(*twins.gpu, std::move(spec));
  const std::shared_ptr<const GpuMemory> memory = twins.gpu->allocate(kBytes).value();
  for (int round = 0; round < 6; ++round) {
    std::vector<Floats> values(3, Floats(kCount));
    for (Floats& one : values) test::fillWithIntegers(one, twins.random);
    const void* const inputs[] = {values[0].data(), values[1].data(), values[2].data()};
    // Each of the three ways for each of the outputs in turn
    const size_t onDevice = static_cast<size_t>(round % 3), onHost = static_cast<size_t>((round + 1) % 3);
    Floats brought(kCount);
    void* outputs[] = {nullptr, nullptr, nullptr};
    std::shared_ptr<const GpuMemory> resident[3];
    outputs[onHost] = brought.data();
    resident[onDevice] = memory;
    REQUIRE(program->run({.inputs = inputs, .outputs = outputs, .residentOutputs = resident}, nullptr, nullptr).isOk());
    CHECK(brought == values[onHost]);
    Floats left(kCount);
    REQUIRE(twins.gpu->download(*memory, left.data()).isOk());
    CHECK(left == values[onDevice]);
  }
}

TEST_CASE("runs as a graph find inputs where they are, and bring outputs to where they are wanted, each time anew") {
  Twins twins;
  // One that is large goes another way to CPU memory than small ones.
  const std::vector<int64_t> counts{1000, 50'000, 1, 0, 3000};
  ProgramSpec spec;
  for (size_t i = 0; i < counts.size(); ++i) {
    CopyStep copy;
    copy.bytes = 4, copy.extents = {counts[i]}, copy.inputStrides = copy.outputStrides = {1};
    copy.input = {Space::input, static_cast<int64_t>(i), 0}, copy.output = {Space::output, static_cast<int64_t>(i), 0};
    spec.steps.push_back(copy);
    spec.inputBytes.push_back(counts[i] * 4), spec.outputBytes.push_back(counts[i] * 4);
  }
  const auto program = prepared(*twins.gpu, std::move(spec));
  constexpr int kThreads = 4, kRounds = 60;
  const unsigned seed = test::fuzzSeed();
  std::atomic<int> failures{0};
  const auto runMany = [&](unsigned thread) {
    std::mt19937 random(seed + thread);
    const auto any = [&](int choices) { return static_cast<int>(random() % static_cast<unsigned>(choices)); };
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Floats> values, brought;
      std::vector<const void*> inputs;
      std::vector<void*> outputs;
      std::vector<std::shared_ptr<const GpuMemory>> residentInputs, residentOutputs;
      for (const int64_t count : counts) {
        Floats& value = values.emplace_back(count);
        test::fillWithIntegers(value, random);
        Floats& place = brought.emplace_back(count, -1000.0f);
        // Memory that was given back comes again, for another tensor.
        const bool isResident = any(2) == 0;
        inputs.push_back(isResident ? nullptr : value.data());
        residentInputs.push_back(isResident ? twins.gpu->allocate(count * 4).value() : nullptr);
        if (isResident && !twins.gpu->upload(value.data(), *residentInputs.back()).isOk()) ++failures;
        const int wanted = any(3);
        outputs.push_back(wanted == 0 ? place.data() : nullptr);
        residentOutputs.push_back(wanted == 1 ? twins.gpu->allocate(count * 4).value() : nullptr);
      }
      const Status status = program->run(
          {.inputs = inputs, .outputs = outputs, .residentInputs = residentInputs, .residentOutputs = residentOutputs},
          nullptr, nullptr);
      if (!status.isOk()) ++failures;
      for (size_t i = 0; i < counts.size(); ++i) {
        if (outputs[i] == nullptr && residentOutputs[i] == nullptr) continue;
        if (outputs[i] == nullptr && !twins.gpu->download(*residentOutputs[i], brought[i].data()).isOk()) ++failures;
        if (brought[i] != values[i]) ++failures;
      }
    }
  };
  // One by one first, for which the graphs are made; then all together, which takes both sets of ports.
  runMany(0);
  CHECK(failures == 0);
  std::vector<std::thread> threads;
  for (unsigned thread = 1; thread <= kThreads; ++thread) threads.emplace_back(runMany, thread);
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a resident program says what was chosen for its convolutions, and what it holds") {
  Twins twins;
  const int64_t before = cuda::Device::bytesInUse(0);
  {
    const auto store = twins.gpu->makeStore().value();
    const auto program = twins.gpu->prepareProgram(twins.network.spec("im2win"), store).value();
    const std::vector<Candidate>& choices = program->choices();
    REQUIRE(choices.size() == 6);
    CHECK(choices[0].algorithm == "im2win");
    CHECK(choices[1].algorithm == "im2win");
    CHECK(choices[2].algorithm.empty());
    const auto held = [&] { return store->bytes() + program->bytes(); };
    CHECK(held() == cuda::Device::bytesInUse(0) - before);
    outputOf(*program, SmallNetwork::anyInput(twins.random));
    CHECK(held() == cuda::Device::bytesInUse(0) - before);
  }
  CHECK(cuda::Device::bytesInUse(0) == before);
}

TEST_CASE("runs of a resident program overlap") {
  Twins twins;
  const auto program = prepared(*twins.gpu, twins.network.spec("auto"));
  constexpr int kThreads = 5, kRuns = 40;
  std::vector<Floats> inputs, expected;
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(SmallNetwork::anyInput(twins.random));
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
  const Floats input = SmallNetwork::anyInput(twins.random);
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
  const Floats input = SmallNetwork::anyInput(twins.random);
  Floats output(2 * kClasses);
  Cancellation cancellation;
  cancellation.request();
  CHECK(run(*program, input, output, &cancellation).code() == StatusCode::aborted);
  CHECK(outputOf(*program, input) == outputOf(*twins.expected, input));
}

TEST_CASE("a resident program convolves with filters or a bias that a run brings, by the direct algorithm") {
  Twins twins;
  ConvRequest request;
  request.inputDims = {1, 4, 9, 9};
  request.weightDims = {5, 4, 3, 3};
  request.padding = {1, 1, 1, 1};
  Floats weight(5 * 36), bias(5);
  for (Floats* values : {&weight, &bias}) test::fillWithIntegers(*values, twins.random);
  /** Those that are constants, beside those that a run brings. */
  struct Given {
    bool weight, bias;
  };
  const auto specFor = [&](Given given, const std::string& algorithm) {
    ConvolutionStep step{makeConvProblem(request).value(), {}, {algorithm}};
    ProgramSpec spec;
    const auto place = [&](bool isConstant, const Floats& values) -> Buffer {
      const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
      if (!isConstant) {
        spec.inputBytes.push_back(bytes);
        return {Space::input, static_cast<int64_t>(spec.inputBytes.size()) - 1, 0};
      }
      spec.constants.push_back(values.data()), spec.constantBytes.push_back(bytes);
      return {Space::constant, static_cast<int64_t>(spec.constants.size()) - 1, 0};
    };
    spec.inputBytes = {4 * 81 * 4};
    step.input = {Space::input, 0, 0}, step.output = {Space::output, 0, 0};
    step.weight = place(given.weight, weight), step.bias = place(given.bias, bias);
    spec.steps = {step};
    spec.outputBytes = {5 * 81 * 4};
    return spec;
  };
  for (const Given given : {Given{false, false}, Given{true, false}, Given{false, true}}) {
    const auto onGpu = prepared(*twins.gpu, specFor(given, "auto")),
               onCpu = prepared(twins.cpu, specFor(given, "auto"));
    CHECK(onGpu->choices()[0].algorithm == "direct");
    for (int round = 0; round < 4; ++round) {
      Floats input(4 * 81), broughtWeight(5 * 36), broughtBias(5), actual(5 * 81), expected(5 * 81);
      for (Floats* values : {&input, &broughtWeight, &broughtBias}) test::fillWithIntegers(*values, twins.random);
      std::vector<const void*> inputs{input.data()};
      if (!given.weight) inputs.push_back(broughtWeight.data());
      if (!given.bias) inputs.push_back(broughtBias.data());
      void* const actuals[] = {actual.data()};
      void* const expecteds[] = {expected.data()};
      REQUIRE(onGpu->run({inputs, actuals}, nullptr, nullptr).isOk());
      REQUIRE(onCpu->run({inputs, expecteds}, nullptr, nullptr).isOk());
      CHECK(actual == expected);
    }
  }
  const auto refused = twins.gpu->prepareProgram(specFor({}, "im2win"), twins.gpu->makeStore().value());
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
    // What is on the device is not written by a run that fails.
    const std::shared_ptr<const GpuMemory> kept[] = {twins.gpu->allocate(8).value()};
    const Floats marks{-1, -2};
    Floats left(2);
    void* const nowhere[] = {nullptr};
    REQUIRE(twins.gpu->upload(marks.data(), *kept[0]).isOk());
    CHECK(program->run({.inputs = bad, .outputs = nowhere, .residentOutputs = kept}, nullptr, nullptr).code() ==
          StatusCode::invalidArgument);
    REQUIRE(twins.gpu->download(*kept[0], left.data()).isOk());
    CHECK(left == marks);
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
  const auto store = twins.gpu->makeStore().value();
  const auto first = twins.gpu->prepareProgram(std::move(huge), store);
  REQUIRE_FALSE(first.isOk());
  CHECK(first.status().code() == StatusCode::outOfMemory);
  ProgramSpec large;
  large.steps = {FillStep{.count = int64_t{1} << 31}};
  const auto second = twins.gpu->prepareProgram(std::move(large), store);
  REQUIRE_FALSE(second.isOk());
  CHECK(second.status().code() == StatusCode::unsupported);
  const Floats input = SmallNetwork::anyInput(twins.random);
  const auto third = twins.gpu->prepareProgram(twins.network.spec("auto"), store);
  REQUIRE(third.isOk());
  CHECK(outputOf(*third.value(), input) == outputOf(*twins.expected, input));
}
