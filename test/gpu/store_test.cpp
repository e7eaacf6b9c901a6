#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cuda/program/gpu_store.h"
#include "gpu/gpu.h"
#include "support/reference.h"
#include "support/resnet50_program.h"
#include "support/runs.h"
#include "support/small_network.h"

// Steps are given what a test is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

// What the programs of one network share on a GPU: filters, constants, and scratch memory.

using namespace warpconv;
using namespace warpconv::program;

namespace {

using Floats = std::vector<float>;
using Program = std::shared_ptr<const PreparedProgram>;
using test::SmallNetwork;

std::shared_ptr<Gpu> openedGpu() {
  auto opened = openGpu(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return opened.value();
}

Status run(const PreparedProgram& program, const Floats& input, Floats& output) {
  const void* const inputs[] = {input.data()};
  void* const outputs[] = {output.data()};
  return program.run({inputs, outputs}, nullptr, nullptr);
}

Floats outputOf(const PreparedProgram& program, const Floats& input, int64_t count) {
  Floats output(static_cast<size_t>(count), NAN);
  const Status status = run(program, input, output);
  if (!status.isOk()) FAIL(status.message());
  return output;
}

/** One network on the GPU for several batches, and on the CPU. */
struct Shapes {
  std::mt19937 random{test::fuzzSeed()};
  SmallNetwork network{random};
  Executor executor{1};
  CpuBackend cpu{executor, usableCpu().value()};
  std::shared_ptr<Gpu> gpu = openedGpu();
  std::shared_ptr<Store> store = gpu->makeStore().value();
  std::shared_ptr<Store> cpuStore = cpu.makeStore().value();

  Program prepared(int64_t batch) {
    auto made = gpu->prepareProgram(network.spec("auto", batch), store);
    if (!made.isOk()) FAIL(made.status().message());
    return made.value();
  }

  Floats expected(int64_t batch, const Floats& input) {
    auto made = cpu.prepareProgram(network.spec("auto", batch), cpuStore);
    if (!made.isOk()) FAIL(made.status().message());
    return outputOf(*made.value(), input, batch * SmallNetwork::kClasses);
  }

  void drain() { static_cast<cuda::GpuStore&>(*store).background->drain(); }

  void check(const PreparedProgram& program, int64_t batch) {
    const Floats input = SmallNetwork::anyInput(random, batch);
    INFO("batch " << batch);
    REQUIRE(outputOf(program, input, batch * SmallNetwork::kClasses) == expected(batch, input));
  }
};

}  // namespace

TEST_CASE("programs of many batches give what each gives alone, launched one by one and as graphs, in turns") {
  Shapes shapes;
  const std::vector<int64_t> batches{3, 1, 7, 2, 12, 5};
  std::vector<Program> programs;
  for (const int64_t batch : batches) programs.push_back(shapes.prepared(batch));
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < batches.size(); ++i) shapes.check(*programs[i], batches[i]);
    // From the second round on there is a graph of each.
    if (round > 0) shapes.drain();
  }
}

TEST_CASE("programs whose memory has grown under their graphs go on, and are captured anew") {
  Shapes shapes;
  std::vector<Program> programs;
  for (int64_t batch = 1; batch <= 8; ++batch) {
    programs.push_back(shapes.prepared(batch));
    for (int round = 0; round < 3; ++round) {
      for (int64_t one = 1; one <= batch; ++one) shapes.check(*programs[static_cast<size_t>(one - 1)], one);
      shapes.drain();
    }
  }
}

TEST_CASE("a second batch brings no filters again, and scratch memory is that of the largest") {
  Shapes shapes;
  auto& store = static_cast<cuda::GpuStore&>(*shapes.store);
  const Program large = shapes.prepared(12);
  shapes.check(*large, 12);
  const int64_t constants = store.constants.bytes(), scratch = store.scratchBytes(), all = store.bytes();
  CHECK(scratch > 0);
  CHECK(constants > 0);
  for (const int64_t batch : {1, 5, 12}) {
    const Program program = shapes.prepared(batch);
    shapes.check(*program, batch);
    CHECK(program->bytes() == 0);
    CHECK(store.constants.bytes() == constants);
    CHECK(store.scratchBytes() == scratch);
  }
  // Other algorithms may want their own forms of 8 x 8 x 9 and of 8 x 8 weights, padded to tiles of 64 and 16.
  CHECK(store.bytes() - all < 1 << 20);
}

TEST_CASE("twelve batches of ResNet-50 take less than 1.3 times the memory of the largest alone") {
  std::mt19937 random(test::fuzzSeed());
  const test::ResNet50Program network(random);
  const auto gpu = openedGpu();
  constexpr int64_t kMost = 12;
  const auto anyInput = [&](int64_t batch) {
    Floats input(static_cast<size_t>(batch * test::ResNet50Program::kImage));
    test::fillWithReals(input, random);
    return input;
  };
  const auto prepared = [&](int64_t batch, const std::shared_ptr<Store>& store) {
    auto made = gpu->prepareProgram(network.spec(batch), store);
    if (!made.isOk()) FAIL(made.status().message());
    return made.value();
  };
  int64_t alone = 0;
  {
    const auto store = gpu->makeStore().value();
    const Program program = prepared(kMost, store);
    outputOf(*program, anyInput(kMost), kMost * test::ResNet50Program::kClasses);
    alone = store->bytes() + program->bytes();
  }
  const int64_t before = cuda::Device::bytesInUse(0);
  const auto store = gpu->makeStore().value();
  std::vector<Program> programs;
  for (int64_t batch = 1; batch <= kMost; ++batch) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point start) {
      return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    };
    const Floats input = anyInput(batch);
    const int64_t count = batch * test::ResNet50Program::kClasses;
    const Clock::time_point start = Clock::now();
    programs.push_back(prepared(batch, store));
    const double preparing = since(start);
    const Clock::time_point ready = Clock::now();
    const Floats first = outputOf(*programs.back(), input, count);
    const double running = since(ready);
    MESSAGE("batch " << batch << ": prepared in " << preparing << " ms, run in " << running << " ms; "
                     << static_cast<double>(store->bytes()) * 1e-6 << " MB");
    // Launched one by one, then as a graph: the same bits.
    REQUIRE(std::ranges::all_of(first, [](float value) { return std::isfinite(value); }));
    for (int round = 0; round < 3; ++round) {
      REQUIRE(outputOf(*programs.back(), input, count) == first);
      static_cast<cuda::GpuStore&>(*store).background->drain();
    }
  }
  int64_t held = store->bytes();
  for (const Program& program : programs) held += program->bytes();
  CHECK(held == cuda::Device::bytesInUse(0) - before);
  CHECK(static_cast<double>(held) < 1.3 * static_cast<double>(alone));
  MESSAGE("twelve batches take " << static_cast<double>(held) * 1e-6 << " MB, batch 12 alone "
                                 << static_cast<double>(alone) * 1e-6);
}

TEST_CASE("runs of several batches overlap while others come and go, and memory is trimmed all the while") {
  Shapes shapes;
  constexpr int kThreads = 4, kRuns = 60;
  std::vector<Program> programs;
  std::vector<Floats> inputs, expected;
  for (int64_t batch = 1; batch <= kThreads; ++batch) {
    programs.push_back(shapes.prepared(batch));
    inputs.push_back(SmallNetwork::anyInput(shapes.random, batch));
    expected.push_back(shapes.expected(batch, inputs.back()));
  }
  std::atomic<int> failures{0}, busy{kThreads};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRuns; ++round) {
        Floats output(expected[i].size(), NAN);
        if (!run(*programs[i], inputs[i], output).isOk() || output != expected[i]) ++failures;
      }
      --busy;
    });
  }
  // Larger and larger: what the others use must stay until they are done with it.
  std::mt19937 random(7);
  for (int64_t batch = 5; busy > 0; batch = batch % 40 + 5) {
    const Program program = shapes.prepared(batch);
    const Floats input = SmallNetwork::anyInput(random, batch);
    const Floats right = shapes.expected(batch, input);
    for (int round = 0; round < 3; ++round) {
      if (outputOf(*program, input, batch * SmallNetwork::kClasses) != right) ++failures;
    }
    shapes.store->trim();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("trimming gives scratch memory back, and the forms and constants of programs that are gone") {
  Shapes shapes;
  auto& store = static_cast<cuda::GpuStore&>(*shapes.store);
  Program program = shapes.prepared(3);
  for (int round = 0; round < 3; ++round) shapes.check(*program, 3);
  shapes.drain();
  const int64_t held = store.bytes();
  store.trim();
  CHECK(store.scratchBytes() == 0);
  CHECK(store.bytes() > 0);
  CHECK(store.bytes() < held);
  // Of the graph nothing is used: it has other addresses.
  for (int round = 0; round < 4; ++round) shapes.check(*program, 3);
  shapes.drain();
  shapes.check(*program, 3);
  CHECK(store.bytes() == held);
  program.reset();
  CHECK(store.weights.bytes() > 0);
  CHECK(store.scratchBytes() > 0);
  store.trim();
  CHECK(store.bytes() == 0);
  shapes.check(*shapes.prepared(2), 2);
}

TEST_CASE("programs and their store go in any order, with graphs that are still being made") {
  const int64_t before = cuda::Device::bytesInUse(0);
  {
    Shapes shapes;
    const Floats input = SmallNetwork::anyInput(shapes.random, 2);
    for (int round = 0; round < 40; ++round) {
      std::vector<Program> programs;
      for (int64_t batch = 1; batch <= 4; ++batch) programs.push_back(shapes.prepared(batch));
      for (int64_t batch = 1; batch <= 4; ++batch) {
        shapes.check(*programs[static_cast<size_t>(batch - 1)], batch);
        shapes.check(*programs[static_cast<size_t>(batch - 1)], batch);
      }
      std::shuffle(programs.begin(), programs.end(), shapes.random);
      while (!programs.empty()) programs.pop_back();
      if (round % 4 == 0) shapes.store = shapes.gpu->makeStore().value();
    }
    Program last = shapes.prepared(2);
    shapes.check(*last, 2);
    shapes.check(*last, 2);
    shapes.store.reset();
    shapes.gpu.reset();
    CHECK(outputOf(*last, input, 2 * SmallNetwork::kClasses) == shapes.expected(2, input));
  }
  CHECK(cuda::Device::bytesInUse(0) == before);
}

TEST_CASE("a batch for which there is no room leaves the others as they were") {
  Shapes shapes;
  const Program small = shapes.prepared(1);
  for (int round = 0; round < 3; ++round) shapes.check(*small, 1);
  for (int round = 0; round < 3; ++round) {
    ProgramSpec huge = shapes.network.spec("auto", 2);
    huge.arenaBytes = int64_t{1} << 45;
    const auto refused = shapes.gpu->prepareProgram(std::move(huge), shapes.store);
    REQUIRE_FALSE(refused.isOk());
    CHECK(refused.status().code() == StatusCode::outOfMemory);
    shapes.check(*small, 1);
    shapes.check(*shapes.prepared(3), 3);
  }
}

TEST_CASE("filters are multiplied by their factors, and constants that are not shared go with their program") {
  Shapes shapes;
  ConvRequest request;
  request.inputDims = {1, 8, 6, 6};
  request.weightDims = {16, 8, 3, 3};
  const ConvProblem problem = makeConvProblem(request).value();
  Floats weight(static_cast<size_t>(problem.weightSize())), factors(16), bias(16), input(8 * 36);
  for (Floats* values : {&weight, &factors, &bias, &input}) test::fillWithIntegers(*values, shapes.random);
  const auto specWith = [&](bool isShared) {
    ConvolutionStep step{problem, {}, {}};
    step.input = {Buffer::Space::input, 0, 0}, step.output = {Buffer::Space::output, 0, 0};
    step.weight = {Buffer::Space::constant, 0, 0}, step.scale = {Buffer::Space::constant, 1, 0};
    step.bias = {Buffer::Space::constant, 2, 0};
    ProgramSpec spec;
    spec.steps = {step};
    spec.constants = {weight.data(), factors.data(), bias.data()};
    spec.constantBytes = {4 * problem.weightSize(), 64, 64};
    spec.sharedConstants = {isShared, false, isShared};
    spec.inputBytes = {4 * problem.inputSize()};
    spec.outputBytes = {4 * problem.outputSize()};
    return spec;
  };
  const Floats expected = outputOf(*shapes.cpu.prepareProgram(specWith(true), shapes.cpuStore).value(), input,
                                   problem.outputSize());
  for (const bool isShared : {true, false}) {
    const auto store = std::static_pointer_cast<cuda::GpuStore>(shapes.gpu->makeStore().value());
    auto made = shapes.gpu->prepareProgram(specWith(isShared), store);
    REQUIRE(made.isOk());
    CHECK(outputOf(*made.value(), input, problem.outputSize()) == expected);
    CHECK((made.value()->bytes() > 0) == !isShared);
    CHECK((store->weights.bytes() + store->constants.bytes() > 0) == isShared);
  }
}
